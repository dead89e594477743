"""The agent's part on a card: it samples NVML and the ledgers, and writes the activity pages."""

import contextlib
import dataclasses
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping

from gpustack.adapters import process
from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.adapters.kube import ObjectEvent
from gpustack.adapters.nvml import Nvml
from gpustack.agent.activity.energy import EnergyAccounts
from gpustack.agent.activity.memory_judge import MemoryJudge
from gpustack.agent.activity.nvml_usage import NvmlUsage
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
)
from gpustack.agent.health.node_events import NodeEvents
from gpustack.agent.identification.process_owners import Owner, ProcessOwners
from gpustack.agent.violations.isolation_violations import IsolationViolations
from tests.gpu.host import CONTAINER, Host


class _Started(ProcessOwners):
    """Whose a process is: there is no runtime here, but we have started them all."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def now(self) -> Callable[[int], Owner | None]:
        owners = {
            pid: (name, CONTAINER)
            for name, container in self._host.containers.items()
            for pid in tuple(container.pids)
        }

        def owner_of(pid: int) -> Owner | None:
            while pid and pid not in owners:
                pid = _parent(pid)
            return owners.get(pid)

        return owner_of

    def identity(self, pid: int) -> process.Identity | None:
        return process.identity(pid)


def _parent(pid: int) -> int:
    """Return a process's parent; 0: it has none, or has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])


@dataclasses.dataclass(slots=True, kw_only=True)
class Sampled:
    """What the agent has seen of a host.

    Attributes:
        told: what it would tell Kubernetes.
        energy: whose the joules are.
        drawn_joules: by card, at least and at most what its counter says of that time; only
            after the last look, and only of cards that count.
    """

    told: list[ObjectEvent]
    energy: EnergyAccounts
    drawn_joules: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def sampling(host: Host, nvml: Nvml, *, collects: bool = False) -> Iterator[Sampled]:
    """Let the agent look at a host's containers; the last look is after what runs meanwhile.

    Args:
        host: has them.
        nvml: the driver.
        collects: whether it holds launches back by the driver's count.
    """
    told: list[ObjectEvent] = []
    records = AllocationRecords(CheckpointFile(host.root / "checkpoint.json"))
    for name, placement in host.placements.items():
        records.put(
            PodRecord(
                uid=name,
                namespace="default",
                name=name,
                node="here",
                decided_ns=1,
                source=Source.AGENT,
                containers=(ContainerRecord(placement=placement),),
            )
        )
    sampled = Sampled(told=told, energy=EnergyAccounts(nvml, records))
    node = NodeEvents("here", told.append)
    sampler = ActivitySampler(
        records=records,
        folders=host.folders,
        usage=NvmlUsage(nvml, _Started(host), is_good=collects),
        energy=sampled.energy,
        memory=MemoryJudge(
            IsolationViolations(told.append, hooks=host.root / "hooks"),
            tell_unowned=node.tell_unowned,
            tell_stranger=node.tell_stranger,
        ),
    )

    def look() -> tuple[Mapping[str, float], Mapping[str, float]]:
        before = nvml.energy_joules()
        sampler.look()
        return before, nvml.energy_joules()

    first = look()
    stop = threading.Event()
    thread = threading.Thread(target=sampler.run, args=(stop,))
    thread.start()
    try:
        yield sampled
    finally:
        stop.set()
        thread.join()
    last = look()
    sampled.drawn_joules = {
        uuid: (last[0][uuid] - first[1][uuid], last[1][uuid] - first[0][uuid]) for uuid in last[1]
    }
