"""The extender's part of `docs/benchmarks.md`: ``python -m tests.benchmarks.scheduling``."""

import dataclasses
import pathlib
import shutil
import tempfile
import time

from prometheus_client.parser import text_string_to_metric_families

from gpustack.adapters.kube import KubeClient
from tests.benchmarks.scheduling import least, throughput, verbs
from tests.benchmarks.timing import Timing
from tests.control_plane import extending, fleet, identity, plane

SIZES = (100, 1000, 5000)
PODS_EACH = 8
TIMES = 60
BATCH = 1000
BATCH_NODES = 1000
# Below the 10 s that the scheduler waits. After a pause the extender lists pods from the API
# server's store, which with an etcd before 3.5.13 takes seconds where there are 40 000.
DECISION_SECONDS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one size of fleet showed."""

    nodes: int
    ready_seconds: float
    resident_bytes: int
    times: dict[str, Timing]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """A scheduler's rate, and how many bindings the extender refused.

    `sampling` is the scheduler as it comes: it looks at less than half of so many nodes. `bare`
    looks at all of them, as the one that asks the extender does. `least` is with an extender that
    decides nothing.
    """

    sampling: throughput.Rate
    bare: throughput.Rate
    least: throughput.Rate
    ours: throughput.Rate
    refused: int


def section(sizes: tuple[int, ...] = SIZES, *, times: int = TIMES, batch: int = BATCH) -> str:
    """Measure and return the section's text."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpustack-benchmark-"))
    try:
        return _measured(folder, sizes, times, batch)
    finally:
        shutil.rmtree(folder)


def _measured(folder: pathlib.Path, sizes: tuple[int, ...], times: int, batch: int) -> str:
    found = []
    rates = None
    with plane.start(folder) as control:
        client = KubeClient.from_kubeconfig(control.admin, timeout_seconds=60)
        kubeconfig = identity.extender_kubeconfig(control)
        filled = 0
        for size in sizes:
            fleet.fill(client, range(filled, size), pods_each=PODS_EACH)
            filled = size
            found.append(_fleet(folder, client, kubeconfig, size, times))
            if size == BATCH_NODES:
                rates = _rates(control, client, kubeconfig, batch)
    return _text(found, rates, batch)


def _fleet(
    folder: pathlib.Path, client: KubeClient, kubeconfig: pathlib.Path, size: int, times: int
) -> Found:
    started = time.monotonic()
    with extending.start(folder, kubeconfig, decision_seconds=DECISION_SECONDS) as extender:
        ready_seconds = time.monotonic() - started
        asker = verbs.Asker(client, extender, f"asked-{size}")
        forms = verbs.forms(size)
        measured = {name: asker.time(form, times=times) for name, form in forms.items()}
        return Found(
            nodes=size,
            ready_seconds=ready_seconds,
            resident_bytes=extender.process.resident_bytes,
            times=measured,
        )


def _rates(
    control: plane.ControlPlane, client: KubeClient, kubeconfig: pathlib.Path, batch: int
) -> Throughput:
    every_node = {"percentageOfNodesToScore": 100}
    sampling = throughput.measure(control, client, "sampling", batch, {})
    bare = throughput.measure(control, client, "bare", batch, every_node)
    with least.start(control) as extender:
        configuration = extender.scheduler_configuration()
        undecided = throughput.measure(control, client, "least", batch, configuration)
    with extending.start(control.folder, kubeconfig, secured=True) as extender:
        configuration = extender.scheduler_configuration()
        ours = throughput.measure(control, client, "ours", batch, configuration)
        refused = _refused(extender)
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


def _text(found: list[Found], rates: Throughput | None, batch: int) -> str:
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
    if rates is not None:
        bare = rates.bare.per_second
        lines += [
            "",
            f"## {batch} pods by kube-scheduler 1.34, {BATCH_NODES} nodes with 8 pods each",
            "",
            "The program that decides nothing is `tests/benchmarks/scheduling/least_extender`: no"
            " extender behind the same entry can be faster on this machine.",
            "",
            "| scheduler | pods a second | bindings refused |",
            "|---|---|---|",
            f"| alone, as it comes | {rates.sampling.per_second:.0f} | - |",
            f"| alone, looking at every node | {rates.bare.per_second:.0f} | - |",
            f"| with a program that decides nothing | {_beside(rates.least, bare)} | - |",
            f"| with the extender, over TLS | {_beside(rates.ours, bare)}"
            f" | {rates.refused} ({rates.refused / batch:.1%}) |",
        ]
    return "\n".join(lines) + "\n"


def _beside(rate: throughput.Rate, bare: float) -> str:
    return f"{rate.per_second:.0f} ({rate.per_second / bare:.0%})"
