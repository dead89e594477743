"""The agent's part on a card: it samples NVML and the ledgers, and writes the activity pages."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.adapters.kube import ObjectEvent
from gpustack.adapters.nvml import Nvml
from gpustack.agent.activity.isolation_violations import IsolationViolations
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
)
from gpustack.agent.identification.process_owners import Owner, ProcessOwners
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
        return owners.get


@contextlib.contextmanager
def sampling(host: Host, nvml: Nvml) -> Iterator[list[ObjectEvent]]:
    """Let the agent look at a host's containers; yields what it would tell Kubernetes."""
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
    sampler = ActivitySampler(
        records=records,
        folders=host.folders,
        nvml=nvml,
        owners=_Started(host),
        escapes=IsolationViolations(told.append, hooks=host.root / "hooks"),
    )
    stop = threading.Event()
    thread = threading.Thread(target=sampler.run, args=(stop,))
    thread.start()
    try:
        yield told
    finally:
        stop.set()
        thread.join()
