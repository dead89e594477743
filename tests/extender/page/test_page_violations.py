"""The dashboard shows which pods go past their limits: in words, at once, and without colours."""

from pathlib import Path

import pytest
from selenium.webdriver.support.select import Select

from gpustack.wire import violations
from gpustack.wire.violations import ShareViolation
from tests.cli import snapshots
from tests.extender.calls import bound
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster
from tests.extender.page.browser import Browser
from tests.extender.page.pages import CONTRAST, at, machine, of_file, shown

pytestmark = pytest.mark.long

REASONS = ("ShareExceeded", "UnhookedProcess")


def found(uid: str, reason: str) -> ShareViolation:
    return ShareViolation(uid=uid, container="main", reason=reason, since="2026-11-29T04:35:11Z")


def test_violations_come_and_go_at_their_pod(browser: Browser, mini: MiniCluster) -> None:
    uid = bound(mini, "a", "gpu1", 40, 32)["metadata"]["uid"]
    bound(mini, "b", "gpu1", 40, 32)
    browser.open(f"http://127.0.0.1:{mini.port}/")
    browser.waits(lambda: browser.count(".machines > li") == 2)
    assert browser.count(".violations li") == 0
    assert "Violationsnone" in browser.text("#totals")

    def say(*reasons: str) -> None:
        text = violations.encode(found(uid, each) for each in reasons) if reasons else None
        mini.api.edit("nodes", "gpu1", {"metadata": {"annotations": {KEYS.gpu_violations: text}}})
        eventually(lambda: mini.service.cache.violations("gpu1") == (text or ""))
        browser.look_again()

    say(*REASONS)
    browser.waits(lambda: browser.count(".violations li") == len(REASONS))
    lines = browser.driver.find_elements("css selector", ".tenants > li")
    (taker,) = (each.text for each in lines if "ShareExceeded" in each.text)
    assert taker.startswith("default/a: 40 %, 8 GiB\nShareExceeded (container main) since ")
    assert shown(browser) == {"gpu1": "2 violations", "gpu2": ""}
    assert "Violations2 in 1 pod" in browser.text("#totals")
    assert browser.text("#problems .chip.bad") == "!2 violations"
    Select(browser.find("#show")).select_by_value("trouble")
    browser.waits(lambda: list(shown(browser)) == ["gpu1"])
    say()
    browser.waits(lambda: browser.count(".machines > li") == 0)
    assert browser.problems() == []


@pytest.mark.parametrize("dark", [False, True])
def test_violations_are_readable_by_day_and_by_night(
    browser: Browser, tmp_path: Path, dark: bool
) -> None:
    node = snapshots.node()
    said = violations.encode(found("taker", each) for each in REASONS)
    node["metadata"]["annotations"][KEYS.gpu_violations] = said
    taker = snapshots.pod("taker", 60, 8, held=True)
    idle = snapshots.node(machine("idle"))
    of_violations = CONTRAST.replace("li > span,", "li > span, .violations li,")
    with at(of_file(snapshots.write(tmp_path, node, idle, taker))) as url:
        for width in (1280, 390):
            browser.open(url, dark=dark, width=width)
            browser.waits(lambda: browser.count(".violations li") == len(REASONS))
            texts = dict(browser.script(of_violations))
            assert min(texts.values()) >= 4.5, texts
            assert "ShareExceeded (container main) since" in " ".join(texts)
            assert browser.script("return document.documentElement.scrollWidth") <= width
            browser.picture(f"violations-{width}-{'dark' if dark else 'light'}")
