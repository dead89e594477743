"""Shares of a card's time, by work that is done: nothing here is what the hook says of itself.

A kernel is a fixed amount of work, so its length alone and the number of those that are over say
how much of the card a tenant had. Beside it stands the card's own clock, which kernels read: for a
tenant that is alone it shows the same, less what lies between two kernels.
"""

import contextlib
import itertools
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpustack.adapters.nvml import Nvml
from tests.gpu import work
from tests.gpu.host import CONTAINER, Host, Programs
from tests.gpu.work import Run, Watch, text_of

pytestmark = pytest.mark.gpu

LENGTHS = [20, 200, 2_000, 20_000, 200_000]  # microseconds
SHARES = [10, 30, 50, 70, 90]
NEIGHBOURS = [(30, 70), (50, 50), (25, 25, 25, 25)]
# points, Jain index, percent, percent: bounds that a share must keep on a real card
POINTS, JAIN, LOSS_WHOLE, LOSS_HALF = 3.0, 0.99, 1.0, 3.0


def name_of(length: int) -> str:
    """Return a length as the name of a test can hold it."""
    return text_of(length).replace(" ", "").replace("µ", "u")


ALONE = "A share alone on the card: error in points"
CLOCK = "The same by the card's clock: percent of the time"
LOSS = "What a tenant loses, percent of what it should have"
BESIDE = "Neighbours that always want the card, percent of its time"
ENERGY = "Neighbours' energy by the agent, J, that adds up to the card's counter within 1 %"
ELASTIC = "A share of 30 % that may have all of the card, percent of its time"
COST = "What a launch costs its caller, ns"


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("length", LENGTHS, ids=name_of)
def test_a_share_alone_holds(host: Host, watch: Watch, length: int, share: int) -> None:
    kernel = watch.kernels[length]
    container = host.container("tenant", cores=share)
    watched = max(watch.seconds, 2 * length / 1e6 * 100 / share)  # at least two of its turns
    run = work.run(container, length, kernel.loops, work.WARM_SECONDS + watched).warm
    error = kernel.share(run) - share
    watch.report.put(ALONE, text_of(length), **{f"{share}_%": f"{error:+.2f}"})
    if run.busy_by_clock():
        clock = f"{100 * run.busy_by_clock():.2f}"
        watch.report.put(CLOCK, text_of(length), **{f"{share}_%": clock})
    watch.report.note(
        ALONE, f"{watch.seconds:g} s each, after {work.WARM_SECONDS:g} s. Goal: {POINTS:g}."
    )
    watch.report.at_most(f"error at {share} % with {text_of(length)}", abs(error), POINTS)


@pytest.mark.parametrize(("share", "bound"), [(100, LOSS_WHOLE), (50, LOSS_HALF)])
@pytest.mark.parametrize("length", [20, 2_000], ids=name_of)
def test_little_of_a_share_is_lost(
    host: Host, watch: Watch, length: int, share: int, bound: float
) -> None:
    container = host.container("tenant", cores=share)
    loops = watch.kernels[length].loops
    rates: dict[Programs, list[float]] = {watch.bare: [], container: []}
    for programs in (
        watch.bare,
        container,
    ) * 3:  # in turns, so that a card that slows down harms both
        run = work.run(programs, length, loops, work.WARM_SECONDS + watch.seconds / 4).warm
        rates[programs].append(run.launches_a_second())
    alone, held = statistics.median(rates[watch.bare]), statistics.median(rates[container])
    loss = 100 * (1 - held / (alone * share / 100))
    watch.report.put(LOSS, f"{share} %", **{text_of(length).replace(" ", "_"): f"{loss:+.2f}"})
    watch.report.note(LOSS, f"Goals: {LOSS_WHOLE:g} at 100 %, {LOSS_HALF:g} at 50 %.")
    watch.report.at_most(f"loss at {share} % with {text_of(length)}", loss, bound)


@contextlib.contextmanager
def sampled(host: Host) -> Iterator[Any]:
    """Let our agent look at the host's containers; skips where its packages aren't installed."""
    try:
        from tests.gpu import agent  # noqa: PLC0415  # a machine with a card may lack them
    except ModuleNotFoundError as error:
        pytest.skip(f"not run: the agent needs {error.name}: tests/gpu/README.md")
    nvml = Nvml()
    nvml.inventory()
    with contextlib.closing(nvml), agent.sampling(host, nvml) as looks:
        yield looks


@pytest.mark.parametrize("shares", NEIGHBOURS, ids=lambda each: "-".join(map(str, each)))
@pytest.mark.parametrize("length", [20, 2_000, 20_000], ids=name_of)
def test_neighbours_have_their_shares(
    host: Host, watch: Watch, length: int, shares: tuple[int, ...]
) -> None:
    kernel = watch.kernels[length]
    part = host.share_bytes // len(shares)
    tenants: dict[str, Programs] = {
        f"tenant-{index}": host.container(f"tenant-{index}", cores=share, memory_bytes=part)
        for index, share in enumerate(shares)
    }
    with sampled(host) as looks:
        runs = work.together(tenants, kernel, watch.seconds)
    got = [kernel.share(runs[name]) for name in tenants]
    text = " : ".join(f"{each:.1f}" for each in got)
    column = " : ".join(map(str, shares))
    watch.report.put(BESIDE, text_of(length), **{column: text})
    worst = max(abs(each - share) for each, share in zip(got, shares, strict=True))
    watch.report.at_most(f"error of {column} with {text_of(length)}", worst, POINTS)
    if len(set(shares)) == 1:
        watch.report.at_most("unfairness by Jain's index", 1 - work.jain(got), 1 - JAIN)
    assert not looks.told, "the agent takes a hooked tenant for an escape"
    for uuid, (least, most) in looks.drawn_joules.items():
        idle = looks.energy.sums.idle[uuid]
        parts = [looks.energy.sums.of((name, CONTAINER), uuid) for name in tenants]
        text = f"{' : '.join(f'{each:.0f}' for each in parts)}, idle {idle:.0f}"
        watch.report.put(ENERGY, text_of(length), **{column: text})
        assert 0.99 * least <= sum(parts) + idle <= 1.01 * most, "not the card's own counter"


def test_a_burst_ends_when_a_neighbour_wants_its_share(host: Host, watch: Watch) -> None:
    kernel = watch.kernels[2_000]
    span = work.WARM_SECONDS + watch.seconds
    part = host.share_bytes // 2
    elastic = host.container("elastic", cores=30, burst=100, memory_bytes=part)
    hard = host.container("hard", cores=40, memory_bytes=part)
    with sampled(host), work.background(elastic, kernel, 3 * span) as running:
        time.sleep(span)
        neighbour = work.run(hard, kernel.microseconds, kernel.loops, span)
        burst = running.result()
    got = {name: kernel.share(part) for name, part in phases(burst, neighbour).items()}
    watch.report.put(
        ELASTIC,
        text_of(kernel.microseconds),
        alone=f"{got['before']:.1f}",
        beside_a_share_of_40=f"{got['beside']:.1f}",
        that_share=f"{kernel.share(neighbour.warm):.1f}",
        alone_again=f"{got['after']:.1f}",
        its_burst_ended_after=f"{1000 * burst_seconds(burst, neighbour.begin_ns):.0f} ms",
    )
    watch.report.at_most("what an elastic share lacks", 30 - got["beside"], POINTS)
    watch.report.at_most("what its neighbour lacks", 40 - kernel.share(neighbour.warm), POINTS)


def phases(burst: Run, neighbour: Run) -> Mapping[str, Run]:
    """Cut a bursting tenant's run by what its neighbour did; half a second each way is left out."""
    margin = 5e8
    begin, end = neighbour.begin_ns, neighbour.end_ns
    return {
        "before": burst.between(burst.begin_ns + margin, begin - margin),
        "beside": burst.between(begin + margin, end),
        # an agent takes a tenant for one that wants the card until a second after its last launch
        "after": burst.between(end + 3 * margin, burst.end_ns),
    }


def burst_seconds(burst: Run, neighbour_ns: int) -> float:
    """Return how long after its neighbour's first kernels a tenant still bursts.

    It does as long as 50 ms bring it more than two thirds of what it has alone.
    """
    rest = burst.between(neighbour_ns, burst.end_ns)
    usual = phases(burst, rest)["before"].launches_a_second()
    for first in rest.points:
        window = rest.between(first.at_ns, first.at_ns + 5e7)
        if len(window.points) > 1 and window.launches_a_second() < usual * 2 / 3:
            return (first.at_ns - neighbour_ns) / 1e9
    return (rest.end_ns - neighbour_ns) / 1e9


def test_a_gate_costs_next_to_nothing(host: Host, watch: Watch) -> None:
    rows: Mapping[str, Programs] = {
        "no hook": watch.bare,
        "unlimited": host.container("whole", cores=100),
        "limited": host.container("half", cores=50),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    for name in itertools.chain.from_iterable([list(rows)] * 3):
        found[name].append(work.launch_ns(rows[name], 100))
    for name, runs in found.items():
        least = min(each[0] for each in runs)
        middle = statistics.median(each[1] for each in runs)
        more = least - min(each[0] for each in found["no hook"])
        watch.report.put(
            COST, name, best_round=f"{least:.0f}", median=f"{middle:.0f}", more=f"{more:+.0f}"
        )
    watch.report.note(
        COST, "100 rounds of 256 launches, three times in turns. Goals: 50, 150 more."
    )
    assert host.containers["half"].use().throttled_ns == 0
