"""The checks need a card that answers; where none does, they say so in one line.

--gpu-card simulated   take tests/simgpu's card, whose figures are never written to the page
--gpu-figures FILE     keep the figures there, and leave the page alone
--gpu-variables FOLDER what the agent is to be told of the card, for an inventory: measured.yml
--gpu-seconds S        how long a share is watched
--gpu-bounds           on the simulated card, too, a figure beyond its bound fails the check
"""

import pathlib
import platform
from collections.abc import Generator, Iterator
from typing import Final

import pytest

from tests.benchmarks import gpu as page
from tests.gpu import bundle, contexts
from tests.gpu.cards import CheckedCard, NoCard, Outside, answering
from tests.gpu.host import Host, Programs, Walls, find_walls
from tests.gpu.report import Report
from tests.gpu.work import Kernels, Watch

CARD: Final = pytest.StashKey[CheckedCard]()
REPORT: Final = pytest.StashKey[Report]()
SECONDS: Final = 10.0  # the error of a share holds over 10 s, or 40 of the longest kernel


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu-card", choices=["real", "simulated"], default="real")
    parser.addoption("--gpu-figures", metavar="FILE")
    parser.addoption("--gpu-variables", metavar="FOLDER")
    parser.addoption("--gpu-bounds", action="store_true")
    parser.addoption("--gpu-seconds", metavar="S", type=float, default=SECONDS)


@pytest.hookimpl(trylast=True)  # after -m has chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Print one line where only checks on a card are to run and there is no card."""
    if items and all(item.get_closest_marker("gpu") for item in items):
        try:
            config.stash[CARD] = find_card(config)
        except NoCard as why:
            pytest.exit(f"not run: {why}", returncode=0)


def find_card(config: pytest.Config) -> CheckedCard:
    """Return the card that was asked for.

    Raises:
        NoCard: it isn't there.
        pytest.UsageError: it is there, but what the checks run on it isn't.
    """
    found = answering()
    if found.simulated and config.getoption("--gpu-card", default="real") == "real":
        raise NoCard("no card answers but the simulated one (--gpu-card simulated)")
    if not bundle.make_runnable():
        raise pytest.UsageError("a card answers, but build/gpu isn't there: make gpu-bundle")
    return found


@pytest.fixture(scope="session")
def card(pytestconfig: pytest.Config) -> CheckedCard:
    """The card, or a skip that says why there is none."""
    if CARD not in pytestconfig.stash:
        try:
            pytestconfig.stash[CARD] = find_card(pytestconfig)
        except NoCard as why:
            pytest.skip(f"not run: {why}")
    return pytestconfig.stash[CARD]


@pytest.fixture(scope="session")
def walls(card: CheckedCard, tmp_path_factory: pytest.TempPathFactory) -> Walls:
    """What stands around containers here."""
    return find_walls(card, tmp_path_factory.mktemp("walls"))


@pytest.fixture(scope="session")
def report(card: CheckedCard, walls: Walls, pytestconfig: pytest.Config) -> Iterator[Report]:
    """Where figures go: at once into a file, in the end onto the page."""
    given: str | None = pytestconfig.getoption("--gpu-figures", default=None)
    if card.simulated and given is None:
        pytest.fail("figures of a simulated card need a file: --gpu-figures FILE")
    machine = f"driver {card.driver}, Linux {platform.release()}"
    if not walls.named:
        machine += f"; no mount namespaces here ({walls.why_not}), so the hook's test build"
    file = bundle.FOLDER / "figures.json" if given is None else pathlib.Path(given)
    bounds = not card.simulated or pytestconfig.getoption("--gpu-bounds", default=False)
    made = Report(file, card=card.title, machine=machine, bounds=bounds)
    pytestconfig.stash[REPORT] = made
    yield made
    if given is None:
        page.PAGE.write_text(page.placed(page.PAGE.read_text(), made.figures))
    folder: str | None = pytestconfig.getoption("--gpu-variables", default=None)
    if folder is not None:
        page.write_variables(pathlib.Path(folder), made.figures)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell the report which checks have run and which haven't, and why."""
    made = yield
    report = item.config.stash.get(REPORT, None)
    if report is not None and made.skipped and isinstance(made.longrepr, tuple):
        report.left_out(item.name, made.longrepr[2].removeprefix("Skipped: "))
    elif report is not None and made.when == "call":
        report.has_run(item.name)
    return made


@pytest.fixture(scope="session")
def outside(card: CheckedCard) -> Iterator[Outside]:
    """NVML as the host sees it."""
    made = Outside(card)
    yield made
    made.close()


@pytest.fixture(scope="session")
def bare(card: CheckedCard) -> Programs:
    """Programs without the hook."""
    return Programs(card)


@pytest.fixture(scope="session")
def sizes(bare: Programs, outside: Outside, alone: None) -> contexts.Sizes:
    """What contexts take of this card, without the hook."""
    return contexts.measured(bare, outside)


@pytest.fixture
def host(card: CheckedCard, walls: Walls, sizes: contexts.Sizes, tmp_path: pathlib.Path) -> Host:
    """A host whose agent is told what a context takes."""
    return Host(card, walls, tmp_path, context_bytes=sizes.recommended)


@pytest.fixture(scope="session")
def alone(card: CheckedCard, outside: Outside) -> None:
    """Times and sizes mean something only where no other process is on the card."""
    others = outside.others()
    if others:
        pytest.skip(f"not run: {others} other processes are on the card")


@pytest.fixture(scope="session")
def watch(bare: Programs, alone: None, report: Report, pytestconfig: pytest.Config) -> Watch:
    """What checks with a clock need."""
    seconds = float(pytestconfig.getoption("--gpu-seconds", default=SECONDS))
    kernels = Kernels(bare, min(seconds, 3.0))
    return Watch(bare=bare, kernels=kernels, report=report, seconds=seconds)
