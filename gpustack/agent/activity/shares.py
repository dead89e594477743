"""The containers that have a part of a card, and the files that their hooks read."""

import dataclasses
import pathlib

from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.identification.process_owners import Owner


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One container that has a part of a card.

    Attributes:
        owner: the container.
        namespace: its pod's.
        pod: its pod's name.
        uuids: its cards.
        elastic: the cards that it may use beyond its guarantee while neighbours are idle.
        folder: where its limits, activity page and ledger lie.
    """

    owner: Owner
    namespace: str
    pod: str
    uuids: tuple[str, ...]
    elastic: frozenset[str]
    folder: pathlib.Path

    @property
    def full_name(self) -> str:
        """For a log line: namespace, pod and container."""
        return f"{self.namespace}/{self.pod}/{self.owner[1]}"


def read(records: AllocationRecords, folders: LimitsFiles) -> tuple[Share, ...]:
    """Return the shares that have their files; the others haven't been started."""
    found = []
    for record in records.all():
        for container in record.containers:
            if not container.placement.is_share:
                continue
            elastic = _elastic(folders, record.uid, container.name)
            if elastic is None:
                continue
            found.append(
                Share(
                    owner=(record.uid, container.name),
                    namespace=record.namespace,
                    pod=record.name,
                    uuids=container.placement.uuids,
                    elastic=elastic,
                    folder=folders.path(record.uid, container.name),
                )
            )
    return tuple(found)


def _elastic(folders: LimitsFiles, pod_uid: str, container: str) -> frozenset[str] | None:
    """Return the cards that a share may burst on; None where it has no limits that can be read."""
    try:
        limits = folders.limits(pod_uid, container)
    except BlockingIOError:
        return frozenset()  # a share is sampled although its tenant holds a lease on them
    if limits is None:
        return None
    return frozenset(
        each.uuid for each in limits.devices if each.burst_percent > each.compute_percent
    )
