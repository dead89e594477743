"""Shares on one card, as the sampler meets them: real files, a runtime's socket, a made /proc."""

import fcntl
import os
import pathlib
import struct
from types import TracebackType

from gpustack.adapters import mapped
from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.adapters.cri import CriClient
from gpustack.adapters.kube import ObjectEvent
from gpustack.adapters.nvml import GpuProcess
from gpustack.agent.activity.escapes import Escapes
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.containers.folders import ContainerFolders
from gpustack.agent.containers.owners import Owners
from gpustack.agent.containers.records import (
    CHECKPOINT_VERSION,
    ContainerRecord,
    PodRecord,
    Records,
    Source,
)
from gpustack.agent.containers.runtime import RuntimeView
from gpustack.model.holding import ContainerPlacement
from gpustack.wire import ledger
from gpustack.wire.activity import Activity, CardActivity
from tests.fakes.cri import FakeCri
from tests.fakes.nvml import FakeNvml, card

CARD = card(1)  # the UUID of card 0 is the ledger's word for no card
HOOK = "/usr/local/vcuda/libvcuda.so"
_FLOCK = struct.Struct("hh4xqqi4x")  # struct flock of 64-bit Linux


class Stage:
    """Containers with shares of one card, and the sampler that watches them."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self.now_ns = 10_000_000_000
        self.events: list[ObjectEvent] = []
        self.nvml = FakeNvml(CARD)
        self.cri = FakeCri(root)
        self.records = Records(CheckpointFile(root / "c.json", version=CHECKPOINT_VERSION))
        self.folders = ContainerFolders(root / "containers", context_bytes=64 << 20)
        self._locks: dict[str, int] = {}
        self._hook = root / "hooks" / "0.1.0" / "libvcuda.so"
        self._hook.parent.mkdir(parents=True)
        self._hook.touch()
        self._next_pid = 1000

    def __enter__(self) -> "Stage":
        self.cri.start()
        self._client = CriClient(self.cri.endpoint)
        self.start_sampler()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for lock in self._locks.values():
            os.close(lock)
        self._client.close()
        self.cri.stop()

    def start_sampler(self) -> None:
        """Begin with a sampler that knows nothing, as after a restart of the agent."""
        proc = self._root / "proc"
        self.escapes = Escapes(self.events.append, hooks=self._root / "hooks", proc=proc)
        self.sampler = ActivitySampler(
            records=self.records,
            folders=self.folders,
            nvml=self.nvml,
            owners=Owners(RuntimeView(self._client), proc=proc),
            escapes=self.escapes,
            clock_ns=lambda: self.now_ns,
        )

    def share(self, name: str, *, cores: int = 30, burst: int | None = None) -> str:
        """Start a container of this name in a pod of its own; returns the container's ID."""
        placement = ContainerPlacement(
            name=name, index=0, minors=(1,), uuids=(CARD.uuid,), cores=cores, memory_units=4
        )
        record = PodRecord(
            uid=f"uid-{name}",
            namespace="team",
            name=name,
            node="gpu1",
            decided_ns=1,
            source=Source.EXTENDER,
            containers=(ContainerRecord(placement=placement),),
        )
        self.records.put(record)
        self.folders.prepare(record.uid, placement, burst)
        return self.cri.run(record.uid, name)

    def process(
        self, container: str, *, memory_bytes: int, hooked: bool = True, forged: bool = False
    ) -> int:
        """Start a process on the card; returns its host PID.

        ``forged``: it maps a file of the hook's name and path that isn't the hook.
        """
        self._next_pid += 1
        pid = self._next_pid
        folder = self._root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(f"0::/kubepods/pod1/{container}\n")
        (folder / "comm").write_text("train\n")
        inode = 1 if forged else self._hook.stat().st_ino
        library = f"7f0000000000-7f0000001000 r-xp 0 00:00 {inode} {HOOK}\n" if hooked else ""
        (folder / "maps").write_text(f"400000-401000 r-xp 0 00:00 2 /bin/train\n{library}")
        there = self.nvml.running.get(CARD.uuid, ())
        found = GpuProcess(pid=pid, memory_bytes=memory_bytes, sm_percent=0)
        self.nvml.running[CARD.uuid] = (*there, found)
        return pid

    def write_ledger(self, name: str, *, used_bytes: int = 0, last_want_ns: int = 0) -> None:
        """Let a process of a container write what it uses, and live."""
        if name not in self._locks:
            self._locks[name] = os.open(self._file(name, "ledger"), os.O_RDWR)
        fd = self._locks[name]
        offset = ledger.slot_offset(0)
        entry = ledger.ENTRY.pack(used_bytes // ledger.UNIT_BYTES, 0, 1, 0, last_want_ns, 0, 0)
        os.pwrite(fd, ledger.SLOT_HEADER.pack(0, 7) + entry, offset)
        lock = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)

    def cut_ledger(self, name: str) -> None:
        os.truncate(self._file(name, "ledger"), 100)

    def page(self, name: str) -> Activity:
        return mapped.read_activity(self._file(name, "activity"))

    def card(self, name: str) -> CardActivity:
        (found,) = self.page(name).cards
        return found

    def _file(self, name: str, what: str) -> pathlib.Path:
        return self.folders.path(f"uid-{name}", name) / what
