"""The extender's part of `docs/benchmarks.md`: ``python -m tests.benchmarks.scheduling``.

The rates are those of two releases of Kubernetes, in turns.
"""

import contextlib
import dataclasses
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from gpustack.adapters.kube import KubeClient
from tests.benchmarks.scheduling import least, throughput, verbs
from tests.benchmarks.timing import Timing
from tests.control_plane import extending, fleet, identity, plane
from tests.testbed.artifacts import kubernetes

SIZES = (100, 1000, 5000)
PODS_EACH = 8
TIMES = 60
BATCH = 1000
BATCH_NODES = 1000
# The machine's own speed changes by half within minutes: the schedulers take turns, and the
# scheduler that all are compared with has a turn before ours and one after it.
ROUNDS = 5
# Below the 10 s that the scheduler waits. After a pause the extender lists pods from the API
# server's store, which with Debian's etcd, 3.4.23, takes seconds where there are 40 000.
DECISION_SECONDS = 8
# Five thousand nodes that our agent described, sent in full, are 20.6 MB.
REQUEST_LIMIT_BYTES = 32 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A control plane, a client of its administrator, and the extender's kubeconfig."""

    control: plane.ControlPlane
    client: KubeClient
    kubeconfig: pathlib.Path


@contextlib.contextmanager
def _cluster(folder: pathlib.Path, release: kubernetes.Release) -> Iterator[Cluster]:
    with plane.start(folder, release=release) as control:
        yield Cluster(
            control=control,
            client=KubeClient.from_kubeconfig(control.admin, timeout_seconds=60),
            kubeconfig=identity.extender_kubeconfig(control),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The figures of one size of fleet."""

    nodes: int
    ready_seconds: float
    resident_bytes: int
    times: dict[str, Timing]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """A scheduler's rates, and how many bindings the extender refused, in one round.

    `sampling` is the scheduler as it comes: it looks at less than half of so many nodes. `bare`
    looks at all of them, as the scheduler with the extender does: the mean of a batch before that
    scheduler's and a batch after it. `least` is with an extender that decides nothing. Pods bound a
    second.
    """

    sampling: float
    bare: float
    least: float
    ours: float
    refused: int


# By the minor version of Kubernetes, round by round.
Rates = dict[str, list[Throughput]]


def section(sizes: tuple[int, ...] = SIZES, *, times: int = TIMES, batch: int = BATCH) -> str:
    """Measure and return the section's text."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpustack-benchmark-"))
    try:
        return _measured(folder, sizes, times, batch)
    finally:
        shutil.rmtree(folder)


def _measured(folder: pathlib.Path, sizes: tuple[int, ...], times: int, batch: int) -> str:
    found = []
    rates: Rates = {}
    with _cluster(folder, kubernetes.LATEST) as latest:
        filled = 0
        for size in sizes:
            fleet.fill(latest.client, range(filled, size), pods_each=PODS_EACH)
            filled = size
            found.append(_fleet(latest, size, times))
            if size == BATCH_NODES:
                rates = _both_releases(folder, latest, batch)
    return _text(found, rates, batch)


def _both_releases(folder: pathlib.Path, latest: Cluster, batch: int) -> Rates:
    """Measure a filled cluster and one of the older release, round by round in turns."""
    kubernetes.build(kubernetes.OLDER)
    beside = folder / "older"
    beside.mkdir()
    with _cluster(beside, kubernetes.OLDER) as older:
        fleet.fill(older.client, range(BATCH_NODES), pods_each=PODS_EACH)
        rates: Rates = {each.control.release.minor: [] for each in (latest, older)}
        for number in range(1, ROUNDS + 1):
            for each in (latest, older):
                rates[each.control.release.minor].append(_rates(each, batch, number))
    return rates


def _fleet(cluster: Cluster, size: int, times: int) -> Found:
    started = time.monotonic()
    with extending.start(
        cluster.control.folder,
        cluster.kubeconfig,
        decision_seconds=DECISION_SECONDS,
        request_limit_bytes=REQUEST_LIMIT_BYTES,
    ) as extender:
        ready_seconds = time.monotonic() - started
        asker = verbs.Asker(cluster.client, extender, f"asked-{size}")
        forms = verbs.forms(size)
        measured = {name: asker.time(form, times=times) for name, form in forms.items()}
        return Found(
            nodes=size,
            ready_seconds=ready_seconds,
            resident_bytes=extender.process.resident_bytes,
            times=measured,
        )


def _rates(cluster: Cluster, batch: int, number: int) -> Throughput:
    control = cluster.control

    def rate(name: str, configuration: Mapping[str, object]) -> float:
        return throughput.measure(control, cluster.client, f"{name}-{number}", batch, configuration)

    every_node = {"percentageOfNodesToScore": 100}
    sampling = rate("sampling", {})
    with least.start(control) as extender:
        undecided = rate("least", extender.scheduler_configuration())
    before = rate("before", every_node)
    with extending.start(control.folder, cluster.kubeconfig, secured=True) as extender:
        ours = rate("ours", extender.scheduler_configuration())
        refused = _refused(extender)
    bare = statistics.harmonic_mean([before, rate("after", every_node)])
    return Throughput(sampling=sampling, bare=bare, least=undecided, ours=ours, refused=refused)


def _refused(extender: extending.RunningExtender) -> int:
    """Return how many bindings an extender has refused because the cards were taken."""
    text = extender.get("/metrics")[1].decode()
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "gpustack_extender_decisions_total"
        and sample.labels["outcome"] == "Overtaken"
    )


def _text(found: list[Found], rates: Rates, batch: int) -> str:
    columns = list(dict.fromkeys(name for each in found for name in each.times))
    lines = [
        "## The extender beside a real API server, ms: median (p99)",
        "",
        "Nodes of 8 cards with 8 pods on each; one connection, one question after another. The time"
        " of `predicates` includes its PATCH. A thin node is some 1.6 KB long, one that our agent"
        " described 4 KB, one that lists 50 images, too, 15 KB. Ready: from the program's start to"
        " `/readyz`.",
        "",
        f"| nodes | pods | ready, s | memory, MB | {' | '.join(columns)} |",
        f"|{'---|' * (4 + len(columns))}",
    ]
    for each in found:
        cells = (each.times[name].text() if name in each.times else "-" for name in columns)
        lines.append(
            f"| {each.nodes} | {each.nodes * PODS_EACH} | {each.ready_seconds:.1f}"
            f" | {each.resident_bytes / 1e6:.0f} | {' | '.join(cells)} |"
        )
    for minor, rounds in rates.items():
        lines += _rates_text(minor, rounds, batch)
    return "\n".join(lines) + "\n"


def _rates_text(minor: str, rates: list[Throughput], batch: int) -> list[str]:
    bare = [each.bare for each in rates]
    refused = sum(each.refused for each in rates)
    return [
        "",
        f"## {batch} pods by kube-scheduler {minor}, {BATCH_NODES} nodes with 8 pods each",
        "",
        f"Median of {len(rates)} rounds, in turns with the other release, each with all four in"
        " turn; in brackets of the rate of the"
        " same round alone, looking at every node: the mean of a batch before the extender's and"
        " one after it. The program that decides nothing is"
        " `tests/benchmarks/scheduling/least_extender`: plain HTTP, no state, compiled.",
        "",
        "| scheduler | pods a second | in each round | bindings refused |",
        "|---|---|---|---|",
        _row("alone, as it comes", [each.sampling for each in rates]),
        _row("alone, looking at every node", bare),
        _row("with a program that decides nothing", [each.least for each in rates], bare),
        _row(
            "with the extender, over TLS",
            [each.ours for each in rates],
            bare,
            f"{refused} ({refused / batch / len(rates):.1%})",
        ),
    ]


def _row(name: str, found: list[float], bare: list[float] | None = None, refused: str = "-") -> str:
    """Return a line of the table; ``bare`` are the rates to compare with, round by round."""
    middle, each = f"{statistics.median(found):.0f}", [f"{rate:.0f}" for rate in found]
    if bare is not None:
        parts = [rate / alone for rate, alone in zip(found, bare, strict=True)]
        middle += f" ({statistics.median(parts):.0%})"
        each = [f"{text} ({part:.0%})" for text, part in zip(each, parts, strict=True)]
    return f"| {name} | {middle} | {', '.join(each)} | {refused} |"
