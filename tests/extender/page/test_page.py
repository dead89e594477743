"""The dashboard in a real browser: its content, and its access by keyboard and screen reader.

Needs Debian's chromium and chromium-driver (`tests/setup.sh`). Pictures go to `build/dashboard`.
"""

import datetime
import json
import re
import threading
from pathlib import Path
from typing import Any

import flask
import pytest
from selenium.common.exceptions import JavascriptException
from selenium.webdriver.common.keys import Keys as Press
from selenium.webdriver.support.select import Select

from gpustack.model.codes import MEANINGS
from gpustack.model.node import Card, Node
from tests.cli import snapshots
from tests.extender.calls import bound, filter_nodes
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, pod, serving
from tests.extender.page.browser import Browser
from tests.extender.page.pages import CONTRAST, at, faint, machine, of_file, shown
from tests.fakes.kube_api import FakeKubeApi

pytestmark = pytest.mark.long

HOSTILE = "<script>window.taken=1<img src=x onerror='window.taken=1'>"


@pytest.fixture
def page(browser: Browser, mini: MiniCluster) -> Browser:
    """The page of a cluster where two pods hold cards and one waits."""
    bound(mini, "a", "gpu1", 40, 32)
    mini.ask(mini.create(pod("b", 100)), ["gpu2"])
    filter_nodes(mini, mini.create(pod("big", 400)))
    browser.open(f"http://127.0.0.1:{mini.port}/")
    browser.waits(lambda: browser.count(".machines > li") == 2)
    return browser


def test_cards_holders_waiting_pods_and_decisions_are_shown(page: Browser) -> None:
    assert page.text("#nodes .count") == "2"  # cpu1 has no card
    (first, *_) = page.driver.find_elements("css selector", ".card")
    assert "default/a: 40 %, 8 GiB" in first.text
    bar = page.find(".card .bar")
    assert (bar.get_attribute("role"), bar.get_attribute("aria-label")) == ("img", "40 of 100 %")
    assert "reserved" in page.text(".machines > li:last-child .tenants")
    assert page.text("#waiting .names") == "default/big"
    assert "2 NoWholeCard, 1 NoCards" in page.text("#waiting .why")
    assert "NoWholeCard" in page.text("#decisions tbody tr")
    assert page.text("#totals dd") == "2"
    assert page.problems() == []


def test_the_links_of_a_node_stand_in_a_table_with_headers(page: Browser) -> None:
    page.find(".links > summary").send_keys(Press.ENTER)
    page.waits(lambda: page.count(".matrix td") == 4)
    assert page.text(".matrix") == "GPU 0GPU 1GPU 0XNV12GPU 1NV12X"
    assert page.count(".matrix th[scope=row]") == 2


def test_the_advice_is_shown_on_demand_and_by_keyboard(page: Browser) -> None:
    button = page.find("#waiting tbody button")
    assert button.accessible_name == "What would help? default/big"
    button.send_keys(Press.ENTER)
    page.waits(lambda: "It would fit if" in page.text("#waiting .answer"))
    assert "asks 100 instead of 400 cores" in page.text("#waiting .answer")
    meaning = MEANINGS["NoWholeCard"]
    cure = f"NoWholeCard: {meaning.words}. {meaning.cure} ({meaning.page})"
    assert page.text("#waiting .cure") == cure
    assert button.get_attribute("aria-expanded") == "true"
    button.send_keys(Press.SPACE)
    assert not page.find("#waiting .answer").is_displayed()


def test_a_refresh_shows_new_values_and_keeps_focus_and_open_parts(
    page: Browser, mini: MiniCluster
) -> None:
    page.find(".links > summary").send_keys(Press.ENTER)
    find = page.find("#find")
    find.send_keys("gpu1")
    page.waits(lambda: page.count(".machines > li") == 1)
    bound(mini, "later", "gpu1", 20, 16)
    page.look_again()
    page.waits(lambda: "default/later: 20 %" in page.text(".tenants"))
    assert page.driver.switch_to.active_element == find
    assert find.get_attribute("value") == "gpu1"
    assert page.count(".links[open]") == 1
    page.find("#waiting tbody button").send_keys(Press.ENTER)
    page.waits(lambda: "It would fit if" in page.text("#waiting .answer"))
    mini.api.delete("pods", "later")
    eventually(lambda: mini.free_cores("gpu1") == 160)
    page.look_again()
    page.waits(lambda: "later" not in page.text(".tenants"))
    assert "It would fit if" in page.text("#waiting .answer")
    assert page.driver.switch_to.active_element == page.find("#waiting tbody button")


def test_the_page_can_be_paused(page: Browser, mini: MiniCluster) -> None:
    page.find("#pause").click()
    assert page.find("#pause").get_attribute("aria-pressed") == "true"
    assert "paused" in page.text("#status")
    mini.create(pod("another", 400))
    eventually(lambda: len(mini.service.snapshotter.take().waiting) == 2)
    page.look_again()
    assert page.text("#waiting .count") == "1"
    page.find("#pause").click()
    page.waits(lambda: page.text("#waiting .count") == "2")


def test_figures_of_an_extender_that_is_gone_are_faint(browser: Browser, tmp_path: Path) -> None:
    app, gone = of_file(snapshots.write(tmp_path, snapshots.node())), threading.Event()
    app.before_request(lambda: ("gone", 503) if gone.is_set() else None)
    with at(app) as url:
        browser.open(url)
        browser.waits(lambda: browser.count(".machines > li") == 1)
        assert not any(faint(browser))
        before = datetime.datetime.now() - datetime.timedelta(seconds=4)
        gone.set()
        browser.look_again()
        browser.waits(lambda: browser.find("#alarm").is_displayed())
        since = re.search(r"no answer since (\d\d:\d\d:\d\d)", browser.text("#status"))
        assert since is not None
        assert before.strftime("%H:%M:%S") <= since[1] <= f"{datetime.datetime.now():%H:%M:%S}"
        told = f"not answered since {since[1]}: the figures below are of that time"
        assert told in browser.text("#alarm")
        assert all(faint(browser))
        assert browser.count(".machines > li") == 1
        browser.picture("gone")
        gone.clear()
        browser.look_again()
        browser.waits(lambda: not any(faint(browser)))
        assert "updated" in browser.text("#status")
        assert not browser.find("#alarm").is_displayed()


def test_figures_of_an_extender_that_has_lost_the_cluster_are_faint(
    browser: Browser, api: FakeKubeApi, tmp_path: Path
) -> None:
    with serving(api, tmp_path, watch_idle_seconds=0.2, stale_seconds=0.5) as mini:
        browser.open(f"http://127.0.0.1:{mini.port}/")
        browser.waits(lambda: "updated" in browser.text("#status"))
        api.stop()
        eventually(lambda: bool(mini.service.unready))
        browser.look_again()
        browser.waits(lambda: all(faint(browser)))
        assert "No decision can be made: the API server has said nothing" in browser.text("#alarm")


@pytest.fixture
def kept_away(tmp_path: Path) -> flask.Flask:
    """Four nodes: one accepts pods, and three keep them away."""
    away: dict[str, dict[str, Any]] = {
        "gpu1": {},
        "gpu2": {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        "gpu3": {"spec": {"unschedulable": True}},
        "gpu4": {"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}},
    }
    nodes = ({**snapshots.node(machine(name)), **fields} for name, fields in away.items())
    return of_file(snapshots.write(tmp_path, *nodes))


def test_a_node_shows_the_obstacles_for_pods(browser: Browser, kept_away: flask.Flask) -> None:
    states = {"gpu1": "", "gpu2": "NotReady", "gpu3": "cordoned", "gpu4": "tainted nvidia.com/gpu"}
    with at(kept_away) as url:
        browser.open(url)
        browser.waits(lambda: shown(browser) == states)
        assert browser.text("#totals dd") == "4, 1 NotReady, 1 cordoned"
        assert "1 GPU not allocated" in browser.text(".machines > li:nth-child(2) .about")
        show = Select(browser.find("#show"))
        show.select_by_value("free")
        browser.waits(lambda: list(shown(browser)) == ["gpu1", "gpu4"])
        show.select_by_value("trouble")
        browser.waits(lambda: list(shown(browser)) == ["gpu2"])
        show.select_by_value("all")
        browser.find("#find").send_keys("cordoned")
        browser.waits(lambda: list(shown(browser)) == ["gpu3"])
        assert browser.problems() == []


def test_the_page_calls_the_cards_of_pods_allocated(page: Browser) -> None:
    body = str(page.script("return document.body.innerText"))
    assert "Compute allocated" in body
    assert "Memory allocated" in body
    assert not re.search(r"\bused\b", body, re.IGNORECASE)
    labels = page.script("return [...document.querySelectorAll('[title], [aria-label]')]"
                         ".map(each => each.title + ' ' + each.ariaLabel)")  # fmt: skip
    assert any("40 % allocated" in label for label in labels)
    assert not any(re.search(r"\bused\b", label) for label in labels)


def test_names_are_text_with_any_content(browser: Browser, tmp_path: Path) -> None:
    sick = machine("gpu1", model=HOSTILE, healthy=False, reason=HOSTILE)
    waiting = snapshots.pod(HOSTILE, 40, 8)
    waiting["metadata"]["uid"] = HOSTILE
    waiting["spec"]["containers"][0]["name"] = HOSTILE
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting["status"] = {"conditions": [{**condition, "message": HOSTILE}]}
    path = snapshots.write(tmp_path, snapshots.node(sick), waiting)
    with at(of_file(path)) as url:
        browser.open(url)
        browser.waits(lambda: HOSTILE in browser.text("#waiting .why"))
        browser.find("#waiting tbody button").click()
        browser.waits(lambda: HOSTILE in browser.text("#waiting .answer"))
        browser.find(".machines summary").click()
        for place in (".model", ".state", "#waiting .names", ".machines .about"):
            assert HOSTILE in browser.text(place)
        assert browser.count("main img, main script") == 0
        assert browser.script("return window.taken") is None
        assert browser.problems() == []


def test_the_browser_may_run_and_load_nothing_else(browser: Browser, page: Browser) -> None:
    with pytest.raises(JavascriptException, match="TrustedHTML"):
        browser.script("document.body.innerHTML = '<b>bold</b>'")
    browser.script("const made = new Image(); made.src = 'https://192.0.2.1/'")
    browser.waits(lambda: any("img-src" in each for each in browser.problems()))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_is_readable_by_day_by_night_and_on_a_phone(
    browser: Browser, page: Browser, mini: MiniCluster, dark: bool, width: int
) -> None:
    browser.open(f"http://127.0.0.1:{mini.port}/", width=width, dark=dark)
    browser.waits(lambda: browser.count(".card") == 4)
    browser.find("#waiting tbody button").send_keys(Press.ENTER)
    browser.waits(lambda: "It would fit if" in browser.text("#waiting .answer"))
    browser.picture(f"{width}-{'dark' if dark else 'light'}")
    assert browser.script("return document.scrollingElement.scrollWidth") <= width
    # https://www.w3.org/TR/WCAG22/#contrast-minimum
    assert [each for each in browser.script(CONTRAST) if each[1] < 4.5] == []
    assert browser.problems() == []


def test_a_screen_reader_finds_its_way(page: Browser) -> None:
    for landmark in ("header", "nav[aria-label]", "main", "#nodes form[role=search]"):
        assert page.count(landmark) == 1
    assert page.script("return document.documentElement.lang") == "en"
    names = [
        each.accessible_name
        for each in page.driver.find_elements("css selector", "button, input, select, section")
        if each.is_displayed()
    ]
    assert all(names), names
    assert page.count("[aria-live]:not([aria-live=off])") == 0  # it would read every refresh aloud
    page.find("body").send_keys(Press.TAB)
    assert page.driver.switch_to.active_element.text == "Skip to the nodes"


def test_a_thousand_nodes_stay_usable(browser: Browser, tmp_path: Path) -> None:
    cards = tuple(
        Card(minor=minor, uuid=f"GPU-{minor}", model="NVIDIA T4", memory_bytes=16 << 30)
        for minor in range(8)
    )
    items = [
        snapshots.node(Node(name=f"gpu{number:04}", cards=cards), {"n": str(number)})
        for number in range(1000)
    ]
    items += [snapshots.pod(f"waiting{number}", 1600, 0) for number in range(200)]
    path = snapshots.write(tmp_path, *items)
    with at(of_file(path)) as url:
        browser.open(url)
        browser.waits(lambda: browser.text("#nodes .count") == "1000")
        assert browser.count(".machines > li") == 25
        assert browser.text("#waiting summary") == "200 pods of default"
        browser.find("#nodes .pager button:last-child").send_keys(Press.ENTER)
        browser.waits(lambda: browser.text(".machines .name") == "gpu0025")
        browser.find("#find").send_keys("gpu0777")
        browser.waits(lambda: browser.count(".machines > li") == 1)
        slow = browser.script(
            "const began = performance.now();"
            "document.querySelector('#find').dispatchEvent(new Event('input'));"
            "return performance.now() - began"
        )
        assert slow < 500, "milliseconds to draw a thousand nodes"


def test_the_address_of_the_page_needs_no_root(mini: MiniCluster) -> None:
    """The page works behind a proxy's prefix: its addresses don't begin with a slash."""
    html = mini.call("GET", "/").raw.decode()
    assert 'href="/' not in html
    assert 'src="/' not in html
    assert json.dumps("http") not in html
