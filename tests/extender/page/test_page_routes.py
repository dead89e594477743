"""The address of the page says what is looked at, so that it can be passed on."""

import functools
from pathlib import Path
from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys as Press
from selenium.webdriver.support.select import Select

from tests.cli import snapshots
from tests.extender.calls import bound, filter_nodes
from tests.extender.mini_cluster import MiniCluster, pod
from tests.extender.page import fleet
from tests.extender.page.browser import Browser
from tests.extender.page.pages import at, of_file, shown

pytestmark = pytest.mark.long

HOSTILE = "gpu1; rm -rf / #<img src=x onerror='window.taken=1'>"


@pytest.fixture
def url(browser: Browser, mini: MiniCluster) -> str:
    """The page of a cluster where pods of two namespaces hold cards and one waits."""
    bound(mini, "a", "gpu1", 40, 32)
    bound(mini, "b", "gpu2", 40, 32)
    filter_nodes(mini, mini.create(pod("big", 400)))
    url = f"http://127.0.0.1:{mini.port}/"
    browser.open(url)
    browser.waits(lambda: browser.count(".machines > li") == 2)
    return url


def says(browser: Browser, selector: str, text: str) -> bool:
    return browser.text(selector) == text


def test_a_node_is_shown_alone_opened_with_its_command(browser: Browser, url: str) -> None:
    browser.find("#map .spot").send_keys(Press.ENTER)
    browser.waits(lambda: list(shown(browser)) == ["gpu1"])
    assert browser.script("return location.hash") == "#/node/gpu1"
    assert browser.text("#focus h2") == "Node gpu1"
    assert browser.text("#focus code") == "kubectl describe node gpu1"
    assert browser.find(".card .model").is_displayed()
    # one waits, and not for this node
    assert browser.text("#waiting .empty") == "No waiting pod is to be shown."
    browser.driver.back()
    browser.waits(lambda: browser.count(".machines > li") == 2)
    assert not browser.find("#focus").is_displayed()


def test_a_pod_is_shown_with_why_it_waits_or_runs(browser: Browser, url: str) -> None:
    browser.open(f"{url}#/pod/default/big")
    browser.waits(lambda: "It would fit if" in browser.text("#focus .answer"))
    assert browser.text("#focus code") == "kubectl describe pod --namespace default big"
    assert browser.text("#waiting .names") == "default/big"
    browser.open(f"{url}#/pod/default/b")
    browser.waits(lambda: "It holds gpu2, GPU" in browser.text("#focus .answer"))
    assert list(shown(browser)) == ["gpu2"]
    browser.open(f"{url}#/pod/default/nobody")
    browser.waits(lambda: "No pod of this name is known" in browser.text("#focus .unknown"))


def test_a_namespace_is_shown_with_its_nodes_and_pods(browser: Browser, url: str) -> None:
    browser.open(f"{url}#/namespace/default")
    browser.waits(lambda: list(shown(browser)) == ["gpu1", "gpu2"])
    assert browser.text("#focus code") == "kubectl get pods --namespace default"
    assert browser.text("#waiting .count") == "1"
    browser.open(f"{url}#/namespace/other")
    browser.waits(lambda: browser.find("#focus .unknown").is_displayed())
    assert browser.count(".machines > li") == 0
    assert not browser.text("#waiting .count")


def test_filters_stand_in_the_address_and_come_back(browser: Browser, url: str) -> None:
    browser.find("#find").send_keys("gpu2")
    Select(browser.find("#show")).select_by_value("all")
    address = "#/?find=gpu2&show=all"
    browser.waits(lambda: browser.script("return location.hash") == address)
    browser.open(url + address)
    browser.waits(lambda: list(shown(browser)) == ["gpu2"])
    assert browser.find("#find").get_attribute("value") == "gpu2"


@pytest.mark.parametrize(
    "written",
    [
        "#/nonsense/x",
        "#/node/%E0%A4%A",
        "#/?show=nonsense&order=nonsense",
        "#/node",
        "#//",
        "#/pod/x",
    ],
)
def test_an_address_that_cannot_be_read_shows_all(browser: Browser, url: str, written: str) -> None:
    browser.open(url + written)
    browser.waits(lambda: list(shown(browser)) == ["gpu1", "gpu2"])
    assert not browser.find("#focus").is_displayed()
    assert browser.problems() == []


def test_a_name_that_is_none_is_no_command(browser: Browser, url: str) -> None:
    browser.open(f"{url}#/node/{quote(HOSTILE, safe='')}")
    browser.waits(lambda: browser.text("#focus h2") == f"Node {HOSTILE}")
    assert not browser.find("#focus .command").is_displayed()
    assert browser.text("#focus code") == ""
    assert browser.script("return window.taken") is None


def test_the_address_and_the_command_can_be_copied(browser: Browser, url: str) -> None:
    browser.open(f"{url}#/node/gpu1")
    browser.waits(lambda: browser.find("#focus .command button").is_displayed())
    for button, text in (
        (".copy-link", f"{url}#/node/gpu1"),
        (".command button", "kubectl describe node gpu1"),
    ):
        browser.find(f"#focus {button}").click()
        browser.waits(functools.partial(says, browser, f"#focus {button}", "Copied"))
        find = browser.find("#find")
        find.send_keys(Press.CONTROL, "a")
        find.send_keys(Press.CONTROL, "v")
        assert find.get_attribute("value") == text


def test_keys_lead_to_the_search_and_through_the_map(browser: Browser, tmp_path: Path) -> None:
    with at(of_file(snapshots.write(tmp_path, *fleet.fleet(60, 0)))) as url:
        browser.open(url, width=1440)
        browser.waits(lambda: browser.count("#map .spot") == 60)
        assert browser.count("#map .spot[tabindex='0']") == 1
        browser.find("body").send_keys("/")
        assert browser.script("return document.activeElement.id") == "find"
        browser.script("document.querySelector('#map .spot').focus()")

        def after(*keys: str) -> str:
            for key in keys:
                browser.driver.switch_to.active_element.send_keys(key)
            return str(browser.script("return document.activeElement.hash"))

        assert after(Press.ARROW_RIGHT) == "#/node/gpu002"
        assert after(Press.ARROW_LEFT) == "#/node/gpu001"
        below = after(Press.ARROW_DOWN)
        assert below not in {"#/node/gpu001", "#/node/gpu002"}
        assert after(Press.ARROW_UP) == "#/node/gpu001"
        assert after(Press.END) == "#/node/gpu057"
        assert after(Press.HOME) == "#/node/gpu001"
        assert browser.count("#map .spot[tabindex='0']") == 1
