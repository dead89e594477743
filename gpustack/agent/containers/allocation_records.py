"""The allocations on this host: one record a pod, from its first Allocate until it is gone.

A record carries the whole placement of its pod, so that the second container finds the cards that
were decided with the first one's, and the kubelet's calls so far. Every change is on disk before
it counts: an agent that dies in between has given no answer.
"""

import contextlib
import dataclasses
import enum
import logging
import pathlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from gpustack.adapters.checkpoint import CheckpointError, CheckpointFile
from gpustack.agent.containers.recent_starts import RecentStarts
from gpustack.model.node import Node
from gpustack.model.placement import ContainerPlacement, Placement, apply
from gpustack.model.request import ContainerKind

logger = logging.getLogger(__name__)


class Source(enum.Enum):
    """The origin of a pod's cards."""

    EXTENDER = "extender"
    AGENT = "agent"
    RECOVERED = "recovered"  # read from a running container, the checkpoint being lost


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """One container: its cards, and the device IDs that the kubelet took for it.

    Attributes:
        placement: the cards.
        core_ids: IDs of `vcuda-core`, empty until its Allocate came.
        memory_ids: IDs of `vcuda-memory`, likewise.
        core_epoch: the kubelet, counted from the agent's start, that took `core_ids`; 0 for one of
            an earlier agent.
        memory_epoch: likewise for `memory_ids`.
        verified: whether PreStartContainer has found that the kubelet's view agrees.
        layout: of the files of a share: the newest that its hook reads and the agent of its
            Allocate wrote. Every hook so far reads 1, that of records without it.
    """

    placement: ContainerPlacement
    core_ids: tuple[str, ...] = ()
    memory_ids: tuple[str, ...] = ()
    core_epoch: int = 0
    memory_epoch: int = 0
    verified: bool = False
    layout: int = 1

    @property
    def name(self) -> str:
        """The container's name."""
        return self.placement.name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """One pod and all of its containers that ask for a GPU.

    Attributes:
        decided_ns: time of the decision on its cards, Unix nanoseconds.
        source: the decision's origin.
    """

    uid: str
    namespace: str
    name: str
    node: str
    decided_ns: int
    source: Source
    containers: tuple[ContainerRecord, ...]

    @property
    def placement(self) -> Placement:
        """The cards in the model's terms."""
        placed = tuple(container.placement for container in self.containers)
        return Placement(node=self.node, containers=placed)

    @property
    def verified(self) -> bool:
        """Whether every container that keeps a card has been verified."""
        return all(
            container.verified
            for container in self.containers
            if container.placement.kind is not ContainerKind.INIT
        )

    def container(self, name: str) -> ContainerRecord | None:
        """Return the container of this name; names are unique within a pod."""
        return next((each for each in self.containers if each.name == name), None)

    def with_container(self, changed: ContainerRecord) -> "PodRecord":
        """Return the record with one container replaced by its changed self."""
        containers = tuple(
            changed if each.name == changed.name else each for each in self.containers
        )
        return dataclasses.replace(self, containers=containers)


class AllocationRecords:
    """All records, in memory and on disk. Safe to share between threads.

    Attributes:
        kubelet_call: held during one call of the kubelet: calls change records one at a time.
        version: counts the changes.
        starts: pods of which a container was let start just now.
        before_change: is given the records before each change, to count how long they held cards.

    Raises:
        CheckpointError: the file is broken.
    """

    def __init__(self, checkpoint: CheckpointFile) -> None:
        self._checkpoint = checkpoint
        self._lock = threading.Lock()  # guards _pods and the file
        self.kubelet_call = threading.Lock()
        self._pods = _decode_all(checkpoint.read())
        self.version, self.starts = 0, RecentStarts(self._pods)
        self.before_change: Callable[[Iterable[PodRecord]], None] = lambda _records: None
        if checkpoint.rebooted:
            logger.info("the host has started anew since the records were kept")
        try:
            checkpoint.renew()
        except CheckpointError as error:  # the records stand, and each change tries again
            logger.warning("no change of the records can be written at present: %s", error)

    @property
    def problem(self) -> str:
        """Why no allocation can be recorded; empty while nothing shows that."""
        # No lock: the watchdog must not wait for a disk.
        return self._checkpoint.problem

    def retry(self) -> None:
        """Make the file anew where the disk has refused the last change."""
        with self._lock:
            if self._checkpoint.refused:
                with contextlib.suppress(CheckpointError):  # `problem` still says it
                    self._checkpoint.renew()

    def all(self) -> tuple[PodRecord, ...]:
        """Return every record."""
        with self._lock:
            return tuple(self._pods.values())

    def get(self, uid: str) -> PodRecord | None:
        """Return the record of a pod, None when it holds nothing."""
        with self._lock:
            return self._pods.get(uid)

    def with_core_ids(self, ids: frozenset[str]) -> list[tuple[PodRecord, ContainerRecord]]:
        """Return the containers that were given exactly these `vcuda-core` IDs."""
        return [
            (record, container)
            for record in self.all()
            for container in record.containers
            if frozenset(container.core_ids) == ids
        ]

    def put(self, record: PodRecord) -> None:
        """Add or replace a record.

        Raises:
            CheckpointError: it can't be written; the old state stands.
        """
        with self._lock:
            self._put(record)

    def exchange(self, before: PodRecord | None, record: PodRecord) -> bool:
        """Add or replace a record only where `before` still stands; return whether it did.

        Raises:
            CheckpointError: as `put`.
        """
        with self._lock:
            if self._pods.get(record.uid) != before:
                return False
            self._put(record)
        return True

    def hold(self, record: PodRecord) -> None:
        """Take the cards of a pod that runs, even while the disk refuses its record."""
        with self._lock:
            if record.uid not in self._pods:
                self._checkpoint.hold(_encode(record))
                self.before_change(self._pods.values())
                self._pods = {**self._pods, record.uid: record}
                self.version += 1

    def remove(self, uid: str) -> None:
        """Forget a pod.

        Raises:
            CheckpointError: it can't be written; the old state stands.
        """
        with self._lock:
            self._checkpoint.remove(uid)
            self.before_change(self._pods.values())
            self._pods = {key: pod for key, pod in self._pods.items() if key != uid}
            self.version += 1

    def taken(self, node: Node, *, without: str = "") -> Node:
        """Return the node with the cards of every pod taken, but for the pod `without`."""
        for record in self.all():
            if record.uid != without:
                node = apply(node, record.placement)
        return node

    def _put(self, record: PodRecord) -> None:
        self._checkpoint.put(_encode(record))
        self.before_change(self._pods.values())
        self._pods = {**self._pods, record.uid: record}
        self.version += 1


def open_records(state_dir: pathlib.Path) -> AllocationRecords:
    """Open the checkpoint; one that can't be used is set aside, and recovery restores its records.

    That of a newer agent is kept under the name of its version.
    """
    state_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    checkpoint = CheckpointFile(state_dir / "checkpoint.json")
    try:
        return AllocationRecords(checkpoint)
    except CheckpointError as error:
        aside = checkpoint.set_aside(error.ending)
        logger.error("checkpoint can't be used, kept as %s: %s", aside, error)
        return AllocationRecords(checkpoint)


def _encode(record: PodRecord) -> dict[str, Any]:
    return {
        "uid": record.uid,
        "namespace": record.namespace,
        "name": record.name,
        "node": record.node,
        "decided_ns": record.decided_ns,
        "source": record.source.value,
        "containers": [_encode_container(each) for each in record.containers],
    }


def _encode_container(container: ContainerRecord) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(container.placement),
        "core_ids": container.core_ids,
        "memory_ids": container.memory_ids,
        "verified": container.verified,
        "layout": container.layout,
    }


def _decode_all(records: Mapping[str, Any]) -> dict[str, PodRecord]:
    try:
        return {uid: _decode(record) for uid, record in records.items()}
    except (KeyError, TypeError, ValueError) as error:
        # A development build with another layout of the same version wrote the file.
        text = f"the records are not laid out as they should be: {error!r}"
        raise CheckpointError(text) from error


def _decode(pod: Mapping[str, Any]) -> PodRecord:
    return PodRecord(
        uid=pod["uid"],
        namespace=pod["namespace"],
        name=pod["name"],
        node=pod["node"],
        decided_ns=pod["decided_ns"],
        source=Source(pod["source"]),
        containers=tuple(_decode_container(each) for each in pod["containers"]),
    )


def _decode_container(container: Mapping[str, Any]) -> ContainerRecord:
    return ContainerRecord(
        placement=msgspec.convert(container, ContainerPlacement),
        core_ids=tuple(container["core_ids"]),
        memory_ids=tuple(container["memory_ids"]),
        verified=container["verified"],
        layout=container.get("layout", 1),
    )
