"""Pods that wait alike stand in one row; rows can be searched and sorted."""

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys as Press
from selenium.webdriver.support.select import Select

from tests.cli import snapshots
from tests.extender.calls import filter_nodes
from tests.extender.mini_cluster import MiniCluster, pod
from tests.extender.page import fleet
from tests.extender.page.browser import Browser
from tests.extender.page.pages import at, of_file

pytestmark = pytest.mark.long


def rows(browser: Browser) -> list[str]:
    """Return the pods of each row, as the row names them."""
    script = """
    return [...document.querySelectorAll("#waiting tbody td.pods")].map((each) =>
      (each.querySelector("summary") ?? each).textContent);
    """
    return [str(each) for each in browser.script(script)]


@pytest.fixture
def address(tmp_path: Path) -> str:
    urgent = fleet.waiting("urgent", created="2026-11-29T13:00:00Z")
    urgent["spec"]["priority"] = 1000
    return snapshots.write(
        tmp_path,
        fleet.node(1),
        *(fleet.waiting(f"train-{number}", owner="train") for number in range(3)),
        fleet.waiting("other-0", owner="other", cores=3200),
        urgent,
    )


def test_pods_alike_are_one_row_with_one_advice(browser: Browser, address: str) -> None:
    with at(of_file(address)) as url:
        browser.open(url)
        browser.waits(lambda: len(rows(browser)) == 3)
        assert rows(browser) == ["default/other-0", "3 pods of default", "default/urgent"]
        row = "#waiting tbody:nth-of-type(2)"
        assert browser.text(f"{row} td:nth-of-type(4)") == "3 \N{MULTIPLICATION SIGN} 16 whole GPUs"
        assert browser.text(f"{row} td:nth-of-type(6)") == "Job/train"
        assert browser.text("#waiting .count") == "5"
        assert browser.count(f"{row} .names li") == 0  # few rows are ever opened
        browser.find(f"{row} summary").click()
        browser.waits(lambda: browser.text(f"{row} .names li:last-child a") == "default/train-2")
        browser.find(f"{row} button").send_keys(Press.ENTER)
        browser.waits(lambda: "It would fit if" in browser.text(f"{row} .answer"))
        assert browser.find(f"{row} button").get_attribute("aria-expanded") == "true"
        assert browser.problems() == []


def test_a_refusal_says_whose_count_of_nodes_it_is(browser: Browser, mini: MiniCluster) -> None:
    """kube-scheduler asks about the nodes that its own filters leave, not about the cluster's."""
    filter_nodes(mini, mini.create(pod("p", 400)), ["gpu1"])
    browser.open(f"http://127.0.0.1:{mini.port}/")
    why = "#waiting tbody td.why"
    said = "Of 1 node that kube-scheduler asked about, none fits: 1 NoWholeCard (at "
    browser.waits(lambda: browser.count(why) == 1 and browser.text(why).startswith(said))
    assert browser.problems() == []


def test_rows_are_sorted_and_searched_and_the_address_keeps_it(
    browser: Browser, address: str
) -> None:
    with at(of_file(address)) as url:
        browser.open(url)
        browser.waits(lambda: len(rows(browser)) == 3)
        order = Select(browser.find("#waiting [name=order]"))
        order.select_by_value("priority")
        browser.waits(lambda: rows(browser)[0] == "default/urgent")
        order.select_by_value("number")
        browser.waits(lambda: rows(browser)[0] == "3 pods of default")
        browser.find("#waiting [name=pods]").send_keys("job/other")
        browser.waits(lambda: rows(browser) == ["default/other-0"])
        address = browser.script("return location.hash")
        assert address == "#/?pods=job%2Fother&order=number"
        browser.open(url + address)
        browser.waits(lambda: rows(browser) == ["default/other-0"])
        assert browser.find("#waiting [name=pods]").get_attribute("value") == "job/other"


def test_ten_thousand_waiting_pods_are_shown_in_pages(browser: Browser, tmp_path: Path) -> None:
    path = snapshots.write(tmp_path, *fleet.fleet(2, 10_000))
    with at(of_file(path)) as url:
        browser.open(url)
        browser.waits(lambda: browser.text("#waiting .count") == "10000")
        assert len(rows(browser)) == 20
        browser.find("#waiting summary").click()
        # A browser says some time after the click that the row is open.
        browser.waits(lambda: browser.count("#waiting tbody:first-of-type .names li") == 50)
        assert browser.text("#waiting .more") == "and 200 more"
        assert browser.problems() == []
