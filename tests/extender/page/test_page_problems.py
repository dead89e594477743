"""The page names what is wrong first, each as a link to where it is."""

import functools
from pathlib import Path

import pytest

from tests.cli import snapshots
from tests.extender.calls import bound
from tests.extender.mini_cluster import MiniCluster
from tests.extender.page import fleet
from tests.extender.page.browser import Browser
from tests.extender.page.pages import at, machine, of_file, shown

pytestmark = pytest.mark.long

QUOTA = '{"default": {"quota": {"NVIDIA A100-SXM4-80GB": 1}}}'


def chips(browser: Browser) -> list[tuple[str, str]]:
    """Return each problem's level and text."""
    script = """
    return [...document.querySelectorAll("#problems a")].map((each) =>
      [each.className.replace("chip ", ""), each.lastChild.textContent]);
    """
    return [(level, text) for level, text in browser.script(script)]


def lists(browser: Browser, nodes: list[str]) -> bool:
    return list(shown(browser)) == nodes


def test_a_good_cluster_says_so_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    with at(of_file(snapshots.write(tmp_path, snapshots.node()))) as url:
        browser.open(url)
        browser.waits(lambda: chips(browser) == [("well", "All is well")])
        assert browser.problems() == []


def test_every_problem_leads_to_where_it_is(browser: Browser, tmp_path: Path) -> None:
    away = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    path = snapshots.write(
        tmp_path,
        snapshots.node(machine("gpu1")),
        snapshots.node(machine("gpu2", healthy=False, reason="XID 79")),
        {**snapshots.node(machine("gpu3")), **away},
        {**snapshots.node(machine("gpu4")), "spec": {"unschedulable": True}},
        {**snapshots.node(machine("gpu5")), "status": {"allocatable": {"cpu": "8"}}},
        fleet.waiting("train", owner="train"),
    )
    with at(of_file(path)) as url:
        browser.open(url)
        browser.waits(lambda: len(chips(browser)) == 5)
        levels = [level for level, _ in chips(browser)]
        texts = [text for _, text in chips(browser)]
        assert levels == ["bad", "bad", "bad", "odd", "odd"]
        assert texts[:3] == ["1 GPU unhealthy", "1 node not ready", "1 agent silent"]
        assert texts[3].startswith("1 pod waiting, the oldest for ")
        assert texts[4] == "1 node cordoned"
        for number, nodes in ((1, ["gpu2"]), (2, ["gpu3", "gpu4", "gpu5"])):
            browser.find(f"#problems li:nth-child({number}) a").click()
            browser.waits(functools.partial(lists, browser, nodes))
            assert browser.script("return document.activeElement.id") == "nodes"
        browser.find("#problems li:nth-child(4) a").click()
        browser.waits(lambda: browser.script("return document.activeElement.id") == "waiting")
        assert browser.problems() == []


def test_an_opened_node_says_what_to_do_about_its_silent_agent(
    browser: Browser, tmp_path: Path
) -> None:
    silent = {**snapshots.node(), "status": {"allocatable": {"cpu": "8"}}}
    path = snapshots.write(tmp_path, silent, snapshots.node(machine("gpu2")))
    with at(of_file(path)) as url:
        browser.open(url)
        browser.waits(lambda: "restart gpustack-agent" in browser.text("#nodes .cure"))
        assert browser.count("#nodes .cure") == 1
        assert browser.problems() == []


def test_an_opened_node_says_what_to_do_about_a_closed_card(
    browser: Browser, tmp_path: Path
) -> None:
    lost = snapshots.node(machine("gpu2", healthy=False, reason="Lost"))
    by_hand = snapshots.node(machine("gpu3", healthy=False, reason="Quarantined"))
    with at(of_file(snapshots.write(tmp_path, snapshots.node(), lost, by_hand))) as url:
        browser.open(url)
        browser.waits(lambda: browser.count("#nodes .cure") == 2)
        codes = browser.script(
            "return [...document.querySelectorAll('#nodes .cure strong')].map((e) => e.innerText)"
        )
        assert codes == ["CardUnhealthy", "CardQuarantined"]
        assert "gpustack card list" in browser.text("#nodes .cure")
        assert browser.problems() == []


def test_a_quota_that_is_exceeded_is_a_problem(browser: Browser, mini: MiniCluster) -> None:
    bound(mini, "a", "gpu1", 100, 0)
    bound(mini, "b", "gpu1", 100, 0)
    mini.api.create("configmaps", snapshots.quota(QUOTA))
    browser.open(f"http://127.0.0.1:{mini.port}/")
    browser.waits(lambda: ("bad", "1 quota exceeded") in chips(browser))
    assert "2 of 1 GPUs, exceeded" in browser.text("#quotas .bad")


def test_a_quota_that_cannot_be_read_is_a_problem(browser: Browser, mini: MiniCluster) -> None:
    mini.api.create("configmaps", snapshots.quota("{"))
    browser.open(f"http://127.0.0.1:{mini.port}/")
    browser.waits(lambda: ("bad", "the quota can't be used") in chips(browser))
    browser.waits(lambda: browser.find("#alarm").is_displayed())
