"""How long the dashboard takes to draw a large cluster, in Debian's Chromium."""

import pathlib
import random
import statistics
import tempfile
import urllib.request
from collections.abc import Iterator

from extender.api.app import create_app
from extender.offline import OfflineExtender
from extender.settings import load
from tests.benchmarks import usage
from tests.cli import snapshots
from tests.extender.page import fleet
from tests.extender.page.browser import Browser, chromium
from tests.extender.page.pages import at

NODES = 300
PODS = 2000
LOADS = 5
REFRESHES = 20
ASKED = NODES // 20  # between two refreshes, which are 3 s apart
WATCH = """
new PerformanceObserver((list) => requestAnimationFrame(() => {
  const next = new MessageChannel();  // its message comes after the frame is painted
  next.port1.onmessage = () => {
    const resources = performance.getEntriesByType("resource");
    const asked = resources.filter((each) => each.name.endsWith("v1/cluster"));
    const [drawn] = list.getEntriesByName("draw");
    window.seen = { number: (window.seen?.number ?? 0) + 1, drawn: drawn.duration,
                    painted: performance.now() - asked.at(-1).responseEnd };
  };
  next.port2.postMessage("");
})).observe({ type: "measure" });
"""


def section() -> str:
    """Measure and return the page's part."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"## The dashboard of {NODES} nodes with 8 cards each and {PODS} waiting pods\n"
    with tempfile.TemporaryDirectory() as folder:
        path = snapshots.write(pathlib.Path(folder), *fleet.fleet(NODES, PODS))
        service = OfflineExtender(load(None), path)
        _use(service, NODES)
        app = create_app(service, request_limit_bytes=1 << 20)
        with chromium() as browser, at(app) as url:
            answer = urllib.request.urlopen(f"{url}v1/cluster").read()
            watching = {"source": WATCH}
            browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", watching)
            painted = [_load(browser, url) for _ in range(LOADS)]
            drawn = [_refresh(browser, service) for _ in range(REFRESHES)]
    yield "| what | median | most | goal |"
    yield "| --- | --- | --- | --- |"
    yield f"| from the data to the first paint, ms | {_both(painted)} | 200 |"
    yield f"| a refresh, ms | {_both(drawn)} | 50 |"
    yield f"| the answer of `/v1/cluster`, MB | {len(answer) / 1e6:.2f} | | 2 |"
    cost = usage.cpu_milliseconds(NODES)
    yield f"| CPU of asking an agent, once a minute, ms | {cost:.1f} | | |"
    yield ""


def _load(browser: Browser, url: str) -> float:
    browser.open(url, width=1440, height=900)
    browser.waits(lambda: browser.count(".spot") == NODES)
    return _seen(browser, 1)["painted"]


def _use(service: OfflineExtender, number: int) -> None:
    """Let so many nodes' agents say how busy their cards are."""
    for node in random.sample(service.cache.card_nodes, number):
        busy = {card.uuid: random.randrange(101) / 100 for card in node.cards}  # noqa: S311
        service.card_utilisation.keep(node.name, busy)


def _refresh(browser: Browser, service: OfflineExtender) -> float:
    _use(service, ASKED)
    number = int(browser.script("return seen.number"))
    browser.look_again()
    return _seen(browser, number + 1)["drawn"]


def _seen(browser: Browser, number: int) -> dict[str, float]:
    """Return what was measured of a drawing, or of a later one."""
    browser.waits(lambda: browser.script("return window.seen?.number ?? 0") >= number)
    seen: dict[str, float] = browser.script("return seen")
    return seen


def _both(milliseconds: list[float]) -> str:
    return f"{statistics.median(milliseconds):.0f} | {max(milliseconds):.0f}"
