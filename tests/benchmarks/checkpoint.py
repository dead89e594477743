"""What a change of the agent's records costs on a full node, and how long a start takes."""

import itertools
import pathlib
import tempfile
import time

from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
    open_records,
)
from gpustack.model.placement import ContainerPlacement
from tests.benchmarks.timing import Timing, measure, summary

CARDS = 16
CARD_UNITS = 768  # 192 GiB of 256 MiB
PODS_A_CARD = 6
TIMES = 200


def record(number: int, *, verified: bool = False) -> PodRecord:
    """Return a pod with a sixth of a card, as the kubelet's two calls leave it."""
    minor, units = number // PODS_A_CARD, CARD_UNITS // PODS_A_CARD
    placement = ContainerPlacement(
        name="main",
        index=0,
        minors=(minor,),
        uuids=(f"GPU-00000000-0000-0000-0000-{minor:012x}",),
        cores=100 // PODS_A_CARD,
        memory_units=units,
    )
    cores = range(number * placement.cores, (number + 1) * placement.cores)
    memory = range(number * units, (number + 1) * units)
    return PodRecord(
        uid=f"{number:08x}-0000-0000-0000-000000000000",
        namespace="default",
        name=f"pod-{number}",
        node="node",
        decided_ns=1,
        source=Source.EXTENDER,
        containers=(
            ContainerRecord(
                placement=placement,
                core_ids=tuple(f"tencent.com/vcuda-core-{each}" for each in cores),
                memory_ids=tuple(f"tencent.com/vcuda-memory-268435456-{each}" for each in memory),
                verified=verified,
            ),
        ),
    )


def section() -> str:
    """Measure and return the page's part."""
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        records = open_records(folder)
        for number in range(CARDS * PODS_A_CARD):
            records.put(record(number))
        change, change_bytes, largest_bytes = _changes(folder, records)
        start = measure(lambda: open_records(folder), times=20)
        pods = len(records.all())
    return "\n".join(
        (
            "## The agent's checkpoint on a full node: one change, and a start",
            "",
            f"{pods} shares of {CARDS} cards of 192 GiB. Each changes its record three times.",
            "A start reads the file and makes it anew; so does a change once all are as",
            "long as the records.",
            "",
            "| change, ms | bytes of a change | largest file, KB | start, ms |",
            "|---|---|---|---|",
            f"| {change.text()} | {change_bytes} | {largest_bytes >> 10} | {start.text()} |",
            "",
        )
    )


def _changes(folder: pathlib.Path, records: AllocationRecords) -> tuple[Timing, int, int]:
    """Change records until the file is made anew; return the times, a change's bytes, the size."""
    file = folder / "checkpoint.json"
    seconds, sizes = [], [file.stat().st_size]
    for number in range(TIMES):
        each = record(number % (CARDS * PODS_A_CARD), verified=number % 2 == 0)
        started = time.perf_counter()
        records.put(each)
        seconds.append(time.perf_counter() - started)
        sizes.append(file.stat().st_size)
    grown = [after - before for before, after in itertools.pairwise(sizes)]
    return summary(seconds), max(grown), max(sizes)
