"""A tenant that hides its GPU time is held to its share by the agent's own account of it.

A share of 20 % beside a neighbour that always has work and has 80 %. The card's driver tells what
each process used by a rule that the agent is told to trust.
"""

import os
import pathlib
import subprocess

import pytest

from gpustack.agent.violations.reactions import EXCEEDED, FOREIGN, UNHOOKED
from tests.gpu import bundle, victims
from tests.gpu.victims import WARM_SECONDS
from tests.hook.container import SIMGPU, make
from tests.hook.escapes.ways_out import Outcome, escape
from tests.hook.root import compiled

NEIGHBOUR = 80.0
POINTS = 3.0  # beyond a share that the agent lets pass
BEYOND_SECONDS = 6.0  # of GPU time beyond share and points, in all
MOST = 100 - NEIGHBOUR + POINTS
LOST = POINTS if os.geteuid() == 0 else 16.0  # it lacks much where this machine is busy
# Two kernels of 0.7 s in turns with its own hold the neighbour up by a second, and its hook lets it
# make up for less: it has 69 to 76 of its 80 %, with a taker that has no more than its share.
HELD_UP = 16.0
SETTLED = 5.0  # points that hooks err by, where a launch is charged by the time since
SPANS = 14.0, 10.0  # s: the first until it is held, the second to have what is its own
DRIVER = SIMGPU / "out" / "lib" / "libcuda.so.1"

pytestmark = pytest.mark.long

# Every rule by which the driver gives each process what it used; the first at each `make long`.
GOOD_RULES = [
    "exact",
    *(pytest.param(rule, marks=pytest.mark.nightly) for rule in ("late", "seconds")),
]


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    make(SIMGPU, "all", "tests")
    bundle.gather()
    compiled(bundle.FOLDER, "taker.c", "taker", str(DRIVER))
    own_driver(victims.OWN_DRIVER)


def own_driver(folder: pathlib.Path) -> None:
    """Put a libcuda.so.1 of a tenant's own into a folder, and beside it the driver, renamed."""
    folder.mkdir(exist_ok=True)
    renamed = DRIVER.read_bytes().replace(b"libcuda.so.1\0", b"libreal.so.1\0")
    (folder / "libreal.so").write_bytes(renamed)
    listed = subprocess.check_output(["nm", "-D", "--defined-only", DRIVER], text=True)
    seen = {"cuEventRecord", "cuEventElapsedTime", "cuLaunchKernel"}
    names = {line.split()[-1] for line in listed.splitlines()} - seen
    numbered = "".join(f"NAME({number}, {name})\n" for number, name in enumerate(sorted(names)))
    (folder / "names.h").write_text(numbered)
    flags = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", f"-I{folder}")
    compiled(folder, "own_driver.c", "libcuda.so.1", *flags)


def held(
    tmp_path: pathlib.Path, program: str, rule: str = "exact", lost: float = LOST
) -> tuple[float, list[list[str]]]:
    """Check what a program takes in all; returns what it has in the end, percent, and Events."""
    tenants = (("neighbour", 80, "steady"), ("taker", 20, program))
    spans, events = victims.had(tmp_path, rule, tenants, *SPANS)
    # Nothing was measured of the warm-up: all of it may have been taken.
    beyond = WARM_SECONDS * (100 - MOST)
    beyond += sum(each * (had["others"] - MOST) for each, had in zip(SPANS, spans, strict=True))
    assert beyond / 100 <= BEYOND_SECONDS, "s beyond its share"
    assert spans[-1]["neighbour"] >= NEIGHBOUR - lost
    return spans[-1]["others"], events


@escape(
    "Writing zero into the ledger's `paid_until_ns`",
    Outcome.REPORTED,
    f"the event ShareExceeded. With `collect_gpu_time`, the agent's own account holds the container"
    f" to its share once it had {BEYOND_SECONDS:.0f} s of GPU time more; without, it takes what the"
    " card gives it",
)
@pytest.mark.parametrize("rule", GOOD_RULES)
def test_a_zeroed_debt_is_paid_by_the_agents_account(tmp_path: pathlib.Path, rule: str) -> None:
    had, events = held(tmp_path, "zeroing", rule)
    assert had <= MOST
    assert events == [["taker", EXCEEDED]]


@pytest.mark.nightly
@escape(
    "A process, or a CUDA context, for every kernel of half a second or more",
    Outcome.REPORTED,
    "the next process to start, or the context's end, pays for the launch, 1 s at most: in a trial"
    " on the simulated card a share of 20 % had 14 to 21 % with kernels of 0.7 s, and its"
    " neighbour, which they hold up, 69 to 76 of its 80 %. What is longer"
    f" brings the event ShareExceeded, and with `collect_gpu_time` {BEYOND_SECONDS:.0f} s in all",
)
@pytest.mark.parametrize("program", ["processes", "contexts"])
def test_kernels_of_ended_processes_are_paid_for(tmp_path: pathlib.Path, program: str) -> None:
    had, _ = held(tmp_path, program, lost=HELD_UP)
    assert had <= MOST + SETTLED, "of a debt there is none yet"


@escape(
    "Kernels that are short where they are measured and long elsewhere, by a libcuda.so.1 of the"
    " tenant's own that sees the hook's events",
    Outcome.REPORTED,
    "the estimate follows what is measured: in a trial on the simulated card a share of 20 % had"
    " 50 % for a minute beside one of 80 %. The event ShareExceeded names it; with"
    f" `collect_gpu_time` its launches wait once it had {BEYOND_SECONDS:.0f} s of GPU time more",
)
@pytest.mark.parametrize("rule", GOOD_RULES)
def test_kernels_that_are_long_where_nothing_measures_are_paid_for(
    tmp_path: pathlib.Path, rule: str
) -> None:
    had, events = held(tmp_path, "measured", rule)
    assert had <= MOST
    assert events == [["taker", EXCEEDED]]


@escape(
    "Kernels of one shape of which few are long",
    Outcome.CLOSED,
    "what a pair of events holds corrects the estimate, and the driver's count what is left of it:"
    " one of 30 ms after 63 of 10 us had 18 to 19 %, with a share of 20 %",
)
def test_kernels_of_uneven_length_are_charged(tmp_path: pathlib.Path) -> None:
    had, events = held(tmp_path, "uneven")
    assert (had <= MOST, events) == (True, [])


@escape(
    "Fills without end (cuMemset), which are kernels of the driver's own",
    Outcome.REPORTED,
    "not charged, for the hook gates none of their calls, and nothing holds them back: in a"
    " trial on the simulated card such a program had 73 % with a share of 20 %, beside one of 80 %."
    " The event ShareExceeded names the container after 3 s of it; `on_violation: kill` ends the"
    " pod",
)
def test_the_time_of_fills_is_reported(tmp_path: pathlib.Path) -> None:
    tenants = (("neighbour", 80, "steady"), ("taker", 20, "filling"))
    (had,), events = victims.had(tmp_path, "exact", tenants, 10.0)
    assert had["others"] > MOST, "nothing holds it; if something does, the page says so"
    assert events == [["taker", EXCEEDED]]


@pytest.mark.parametrize(
    ("program", "reason"), [("unhooked", UNHOOKED), ("private", FOREIGN)], ids=str
)
@escape(
    "GPU time alone, by a program without the hook, or with files of the tenant's own (moved, in a"
    " mount namespace) for limits and activity page",
    Outcome.REPORTED,
    "such a process asks no page of the agent's, and nothing else holds its launches: with a share"
    " of 20 % it had 60 % beside one of 80 %. The event ShareExceeded names the container after 3 s"
    " of it, besides the event for its maps; `on_violation: kill` ends the pod",
)
def test_time_of_processes_that_ask_no_page_is_reported(
    tmp_path: pathlib.Path, program: str, reason: str
) -> None:
    tenants = (("spare", 100, "nothing"), ("neighbour", 80, "steady"), ("taker", 20, program))
    (had,), events = victims.had(tmp_path, "exact", tenants, 10.0)
    assert had["taker"] > MOST, "nothing holds it; if something does, the page says so"
    assert events == [["taker", reason], ["taker", EXCEEDED]]


@pytest.mark.nightly
@pytest.mark.parametrize("rule", ["exact", "late", "seconds"])
@pytest.mark.parametrize("cores", [20, 30])
def test_shares_that_are_kept_lose_nothing_to_the_agents_account(
    tmp_path: pathlib.Path, rule: str, cores: int
) -> None:
    tenants = (("smaller", cores, "steady"), ("larger", 100 - cores, "steady"))
    (had,), events = victims.had(tmp_path, rule, tenants, sum(SPANS))
    assert events == [], "launches never waited for it"
    assert had["smaller"] == pytest.approx(cores, abs=POINTS)
