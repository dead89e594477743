"""The containers that have a part of a card, and the files that their hooks read."""

import dataclasses
import os
import pathlib
import time
from collections.abc import Mapping
from typing import Final

from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
)
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.identification.process_owners import Owner
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.mapped.two_slot_page import NewerLayoutError

_CLOCK_NS: Final = 1_000_000_000  # far above the steps of a file's times, a tick of the kernel
_UNREAD: Final = 0, 1 << 63  # no file has it: read again at the next look


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One container that has a part of a card.

    Attributes:
        owner: the container.
        namespace: its pod's.
        pod: its pod's name.
        uuids: its cards.
        elastic: the cards that it may use beyond its guarantee while neighbours are idle.
        memory_bytes: of each card, the most that its hook grants.
        percents: by card, its guarantee and its ceiling, percent of GPU time.
        folder: where its limits, activity page and ledger lie.
        newer: whether a newer agent made these files: this one can't read them, and leaves them
            alone. The container counts as wanting its cards.
    """

    owner: Owner
    namespace: str
    pod: str
    uuids: tuple[str, ...]
    elastic: frozenset[str]
    memory_bytes: int
    folder: pathlib.Path
    percents: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    newer: bool = False

    @property
    def full_name(self) -> str:
        """For a log line: namespace, pod and container."""
        return f"{self.namespace}/{self.pod}/{self.owner[1]}"

    def ceiling(self, uuid: str, *, bursts: bool) -> int:
        """Return the percentage of a card's time that it may use now; 100 where none is known."""
        return self.percents.get(uuid, (100, 100))[bursts]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A share as its limits said, and the file that said so: inode and time of its last change."""

    file: tuple[int, int]
    share: Share


class Shares:
    """Reads the shares, and the limits of those whose files have changed."""

    def __init__(self, records: AllocationRecords, folders: LimitsFiles) -> None:
        self._records = records
        self._folders = folders
        self._known: dict[Owner, _Read] = {}

    def read(self) -> tuple[Share, ...]:
        """Return the shares that have their files; the others haven't been started."""
        found: list[Share] = []
        known: dict[Owner, _Read] = {}
        for record in self._records.all():
            for container in record.containers:
                if not container.placement.is_share:
                    continue
                before = self._known.get((record.uid, container.name))
                folder = (
                    self._folders.path(record.uid, container.name)
                    if before is None
                    else before.share.folder
                )
                file = _file(folder)
                if before is None or before.file != file:
                    before = self._read(record, container, file)
                if before is not None:
                    found.append(before.share)
                    known[before.share.owner] = before
        # A file that changed just now may change again without a change of its time.
        latest_ns = time.time_ns() - _CLOCK_NS
        self._known = {owner: each for owner, each in known.items() if each.file[1] < latest_ns}
        return tuple(found)

    def _read(
        self, record: PodRecord, container: ContainerRecord, file: tuple[int, int]
    ) -> _Read | None:
        newer = False
        percents: Mapping[str, tuple[int, int]] = {}
        try:
            limits = self._folders.limits(record.uid, container.name)
        except BlockingIOError:  # its tenant holds a lease on them: it is sampled all the same
            file = _UNREAD
        except NewerLayoutError:
            newer = True
        else:
            if limits is None:
                return None
            percents = {
                each.uuid: (each.compute_percent, each.burst_percent) for each in limits.devices
            }
        share = Share(
            owner=(record.uid, container.name),
            namespace=record.namespace,
            pod=record.name,
            uuids=container.placement.uuids,
            elastic=frozenset(uuid for uuid, (least, most) in percents.items() if most > least),
            memory_bytes=container.placement.memory_units * MEMORY_UNIT_BYTES,
            folder=self._folders.path(record.uid, container.name),
            percents=percents,
            newer=newer,
        )
        return _Read(file=file, share=share)


def _file(folder: pathlib.Path) -> tuple[int, int]:
    """Return the limits' inode and the time of their last change (Unix, ns); zeros: no file."""
    try:
        status = os.stat(f"{folder}/limits")
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
