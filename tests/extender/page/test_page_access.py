"""The page is readable on any screen, and axe-core finds nothing to mend.

Pictures go to `build/dashboard`; `make pictures` puts that of the documents into `docs/images`.
"""

import importlib.resources
from pathlib import Path
from typing import Any

import axe_core_python
import pytest

from tests.cli import snapshots
from tests.extender.page import fleet
from tests.extender.page.browser import Browser
from tests.extender.page.pages import CONTRAST, at, machine, of_file

pytestmark = pytest.mark.long

AXE = importlib.resources.files(axe_core_python).joinpath("axe.min.js").read_text()
BY_DAY = {(2, 390, True), (300, 1440, False)}  # the smallest and the largest
QUOTA = '{"default": {"quota": {"NVIDIA T4": 2}}, "team0": {"quota": {"NVIDIA H100": 64}}}'


def findings(browser: Browser) -> list[tuple[str, str]]:
    """Return each rule that axe-core finds broken, with the element."""
    browser.script(AXE)
    found: dict[str, Any] = browser.driver.execute_async_script(
        "axe.run().then(arguments[arguments.length - 1])"
    )
    return [(rule["id"], each["html"]) for rule in found["violations"] for each in rule["nodes"]]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cluster with something of everything: tenants, waiting pods, a quota, what is wrong."""
    held = (snapshots.pod(f"notebook{number}", 30, 8, held=True) for number in range(3))
    sick = machine("gpu-old", healthy=False, reason="XID 79")
    return snapshots.write(
        tmp_path_factory.mktemp("cluster"),
        snapshots.node(),
        snapshots.node(sick),
        *held,
        *fleet.fleet(40, 120),
        snapshots.quota(QUOTA),
    )


@pytest.mark.parametrize(
    "place", ["#/", "#/node/gpu1", "#/pod/default/notebook0", "#/namespace/team0"]
)
def test_axe_finds_nothing_to_mend(browser: Browser, address: str, place: str) -> None:
    with at(of_file(address)) as url:
        browser.open(url + place)
        browser.waits(lambda: "updated" in browser.text("#status"))
        browser.waits(lambda: "Searching" not in browser.text("#focus"))
        assert findings(browser) == []


SCREENS = [
    pytest.param(
        nodes,
        width,
        dark,
        id=f"{nodes} nodes-{width} px-{'dark' if dark else 'light'}",
        marks=[] if (nodes, width, dark) in BY_DAY else pytest.mark.nightly,
    )
    for nodes in (2, 300)
    for width in (1440, 800, 390)
    for dark in (False, True)
]


def test_the_picture_of_the_documents_shows_the_page(browser: Browser, address: str) -> None:
    with at(of_file(address)) as url:
        browser.open(url, width=1280, height=1100)
        browser.waits(lambda: browser.count(".spot") == 42)
        browser.picture("dashboard")
        assert browser.problems() == []


@pytest.mark.parametrize(("nodes", "width", "dark"), SCREENS)
def test_every_screen_shows_the_whole_page(
    browser: Browser, tmp_path: Path, nodes: int, width: int, dark: bool
) -> None:
    path = snapshots.write(tmp_path, *fleet.fleet(nodes, nodes * 4))
    with at(of_file(path)) as url:
        browser.open(url, width=width, height=900, dark=dark)
        browser.waits(lambda: browser.count(".spot") == nodes)
        browser.picture(f"{nodes}-nodes-{width}-{'dark' if dark else 'light'}")
        assert browser.script("return document.scrollingElement.scrollWidth") <= width
        # https://www.w3.org/TR/WCAG22/#contrast-minimum
        assert [each for each in browser.script(CONTRAST) if each[1] < 4.5] == []
