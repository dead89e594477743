"""The map shows every card of the cluster at once, in words for those who don't see it."""

import re
from pathlib import Path

import pytest

from extender.api.app import create_app
from extender.offline import OfflineExtender
from extender.settings import load
from gpustack.model.node import Card, Node
from tests.cli import snapshots
from tests.extender.page import fleet
from tests.extender.page.browser import Browser
from tests.extender.page.pages import at, of_file

pytestmark = pytest.mark.long


def spots(browser: Browser) -> list[str]:
    """Return what the map says of each node to a screen reader."""
    script = "return [...document.querySelectorAll('.spot')].map((each) => each.ariaLabel)"
    return [str(each) for each in browser.script(script)]


def legend(browser: Browser) -> tuple[bool, bool]:
    """Return whether the legend shows the inner line, and that utilisation isn't known."""
    line, unknown = (browser.find(f"#map .legend .{each}") for each in ("utilised", "unknown"))
    return line.is_displayed(), unknown.is_displayed()


def test_cells_are_filled_as_far_as_cards_are_allocated(browser: Browser, tmp_path: Path) -> None:
    held = (snapshots.pod(f"held{number}", 30, 8, held=True) for number in range(2))
    path = snapshots.write(tmp_path, snapshots.node(), *held)
    with at(of_file(path)) as url:
        browser.open(url)
        browser.waits(lambda: spots(browser) == ["gpu1, 2 GPUs, 2 with free compute"])
        parts = browser.script(
            "return [...document.querySelectorAll('.spot i')].map((each) =>"
            " each.style.getPropertyValue('--part'))"
        )
        assert parts == ["60%", ""]  # an empty cell needs none
        assert browser.text("#map h3") == "NVIDIA T4 · 1 node, 2 GPUs, 30 % allocated"


def test_the_inner_line_is_as_high_as_a_card_is_utilised(browser: Browser, tmp_path: Path) -> None:
    path = snapshots.write(tmp_path, fleet.node(1, cards=3), fleet.node(2, cards=2))
    service = OfflineExtender(load(None), path)
    service.card_utilisation.keep("gpu001", {"GPU-1-0": 0.25, "GPU-1-1": 0.0})
    with at(create_app(service, request_limit_bytes=1 << 20)) as url:
        browser.open(url)
        browser.waits(lambda: browser.count(".spot i") == 5)
        drawn = browser.script(
            "return [...document.querySelectorAll('.spot i')].map((each) =>"
            " getComputedStyle(each).backgroundSize)"
        )
        # Of 13 pixels, over the fill; a card that is known to be idle has a line, too.
        assert drawn == ["3px 3px, auto", "3px 1px, auto", "auto", "auto", "auto"]
        assert browser.script("return document.querySelector('.spot i').clientHeight") == 13
        assert spots(browser) == [
            "gpu001, 3 GPUs, 3 with free compute, 13 % utilised",
            "gpu002, 2 GPUs, 2 with free compute, utilisation not known",
        ]
        assert browser.text("#map h3").endswith("0 % allocated, 13 % utilised")
        assert legend(browser) == (True, False)
        assert browser.text("#totals div:nth-child(4)") == "Utilised13 %"
        assert "GPU 0 · NVIDIA H100 · 25 % utilised" in browser.text("#nodes .machines")
        assert browser.problems() == []


def test_a_map_says_that_utilisation_is_not_known(browser: Browser, tmp_path: Path) -> None:
    with at(of_file(snapshots.write(tmp_path, snapshots.node()))) as url:
        browser.open(url)
        browser.waits(lambda: spots(browser) == ["gpu1, 2 GPUs, 2 with free compute"])
        assert legend(browser) == (False, True)


def test_cards_stand_by_pool_and_model_with_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    cards = tuple(
        Card(
            minor=minor,
            uuid=f"GPU-{minor}",
            model="NVIDIA L4",
            memory_bytes=24 << 30,
            healthy=minor != 1,
        )
        for minor in range(4)
    )
    sick = snapshots.node(Node(name="sick", cards=cards))
    away = {**fleet.node(7, cards=2), "spec": {"unschedulable": True}}
    path = snapshots.write(tmp_path, sick, away, fleet.node(8, cards=2))
    with at(of_file(path)) as url:
        browser.open(url)
        browser.waits(lambda: browser.count(".field") == 2)
        assert spots(browser) == [
            "gpu007, 2 GPUs, 2 with free compute, cordoned",
            "gpu008, 2 GPUs, 2 with free compute",
            "sick, 4 GPUs, 3 with free compute, 1 unhealthy",
        ]
        assert browser.count(".spot.away") == 1
        assert browser.count(".spot i.ill") == 1


def test_2400_cards_fit_on_one_screen(browser: Browser, tmp_path: Path) -> None:
    with at(of_file(snapshots.write(tmp_path, *fleet.fleet(300, 0)))) as url:
        browser.open(url, width=1440, height=900)
        browser.waits(lambda: browser.count(".spot i") == 2400)
        assert browser.script("return document.querySelector('#map').offsetHeight") <= 900
        assert browser.problems() == []


def contrast(one: str, other: str) -> float:
    """Return by how much two colours (`rgb(1, 2, 3)`) differ, as WCAG 2.2 counts it."""
    lights = []
    for color in (one, other):
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    dark, light = sorted(lights)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_marks_and_fields_stand_out_from_what_is_behind(
    browser: Browser, tmp_path: Path, dark: bool
) -> None:
    """https://www.w3.org/TR/WCAG22/#non-text-contrast; axe-core looks at texts alone."""
    away = {**snapshots.node(), "spec": {"unschedulable": True}}
    held = (snapshots.pod(f"held{number}", 100, 0, held=True) for number in range(2))
    with at(of_file(snapshots.write(tmp_path, away, *held))) as url:
        browser.open(url, dark=dark)
        browser.waits(lambda: browser.count(".spot.away i") == 2)
        drawn, border, field, paper = browser.script(
            "const [cell, find, map] = ['.spot i', '#find', '#map'].map((each) =>"
            " getComputedStyle(document.querySelector(each)));"
            "return [cell.backgroundImage, cell.borderTopColor, find.borderTopColor,"
            " map.backgroundColor]"
        )
        hatch, fill = drawn.split(", linear-gradient")
        lines = [each for each in re.findall(r"rgba?\([^)]*\)", hatch) if not each.endswith(" 0)")]
        allocated, free = re.findall(r"rgb\([^)]*\)", fill)
        for behind in (allocated, free):
            assert max(contrast(line, behind) for line in lines) >= 3
        assert contrast(allocated, free) >= 3
        assert contrast(border, paper) >= 3
        assert contrast(field, paper) >= 3
