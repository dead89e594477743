"""The page draws the last day, and names what changed in its last hour."""

from pathlib import Path

import pytest

from extender.api.app import create_app
from extender.observability.history import History, Point
from extender.offline import OfflineExtender
from extender.settings import load
from tests.cli import snapshots
from tests.extender.page.browser import Browser
from tests.extender.page.pages import at

pytestmark = pytest.mark.long

NOON = 1_800_014_400


def minute(
    number: int,
    *,
    unhealthy: int = 0,
    nodes: int = 3,
    waiting: int = 0,
    utilised: float | None = None,
) -> Point:
    return Point(
        time=NOON + 60 * number,
        nodes=nodes,
        away=0,
        cards=8 * nodes,
        unhealthy=unhealthy,
        cores=800 * nodes,
        cores_used=40,
        waiting=waiting,
        fragmented=0.5,
        utilised=utilised,
    )


def test_the_last_day_is_drawn_with_what_changed(browser: Browser, tmp_path: Path) -> None:
    points = [minute(0, nodes=2), *(minute(number, waiting=number) for number in range(1, 100))]
    points += [minute(100, unhealthy=1), minute(101)]
    made = iter(points)
    service = OfflineExtender(load(None), snapshots.write(tmp_path, snapshots.node()))
    service.history = History(lambda _: next(made))
    for _ in points:
        service.history.add()
    with at(create_app(service, request_limit_bytes=1 << 20)) as url:
        browser.open(url)
        browser.waits(lambda: browser.count("#history path") == 4)
        lines = browser.script(
            "return [...document.querySelectorAll('#history .lines li')].map((each) =>"
            " [each.firstChild.textContent, each.lastChild.textContent])"
        )
        assert lines == [
            ["Allocated", "0.4 of 24 GPUs"],
            ["Waiting pods", "0"],
            ["Unhealthy GPUs", "0"],
            ["Free compute that is fragmented", "50 %"],
        ]
        drawn = browser.find("#history li:nth-child(2) path").get_attribute("d")
        assert drawn is not None
        assert len(drawn.split()) == len(points)
        label = browser.find("#history li:nth-child(2) svg").accessible_name
        assert label.startswith("Waiting pods: 0 at ")
        changes = browser.script(
            "return [...document.querySelectorAll('#history .changes li')].map((each) =>"
            " each.textContent.replace(/^[^ ]* /, ''))"
        )
        # that of the first minute is older than an hour
        assert changes == ["unhealthy GPUs 1 → 0", "unhealthy GPUs 0 → 1"]
        assert browser.problems() == []


def test_utilisation_is_drawn_where_it_was_known(browser: Browser, tmp_path: Path) -> None:
    known = (None, 0.25, 0.5, None, 1.0, 0.75)
    made = iter([minute(number, utilised=each) for number, each in enumerate(known)])
    service = OfflineExtender(load(None), snapshots.write(tmp_path, snapshots.node()))
    service.history = History(lambda _: next(made))
    for _ in known:
        service.history.add()
    with at(create_app(service, request_limit_bytes=1 << 20)) as url:
        browser.open(url)
        browser.waits(lambda: browser.count("#history path") == 5)
        line = "#history li:nth-child(2)"
        assert browser.text(f"{line} span:last-child") == "75 %"
        label = browser.find(f"{line} svg").accessible_name
        assert label.startswith("Utilised: not known at ")
        drawn = browser.find(f"{line} path").get_attribute("d")
        # 0 lies at 19, 1 at 1; a gap where nobody knew
        assert drawn == "M20.00,14.50 L40.00,10.00 M80.00,1.00 L100.00,5.50"


def test_a_page_without_a_past_says_so(browser: Browser, tmp_path: Path) -> None:
    service = OfflineExtender(load(None), snapshots.write(tmp_path, snapshots.node()))
    with at(create_app(service, request_limit_bytes=1 << 20)) as url:
        browser.open(url)
        browser.waits(lambda: "updated" in browser.text("#status"))
        browser.waits(lambda: browser.find("#history .empty").is_displayed())
        assert browser.count("#history path") == 0
