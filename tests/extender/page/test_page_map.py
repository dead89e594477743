"""The map shows every card of the cluster at once, in words for those who don't see it."""

from pathlib import Path

import pytest

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
