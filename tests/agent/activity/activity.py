"""Shares on one card for the sampler: real files, a runtime's socket, a made /proc."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import struct
from collections.abc import Iterator

from gpustack.adapters import mapped, memory_maps, process
from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.adapters.cri import CriClient
from gpustack.adapters.kube import ObjectEvent
from gpustack.adapters.nvml import GpuProcess
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.activity.energy import EnergyAccounts
from gpustack.agent.activity.memory_judge import MemoryJudge
from gpustack.agent.activity.nvml_usage import NvmlUsage
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.activity.shares import Share
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
)
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.health.node_events import NodeEvents
from gpustack.agent.identification.process_owners import ProcessOwners
from gpustack.agent.identification.runtime import RuntimeView
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.agent.violations.isolation_violations import IsolationViolations
from gpustack.agent.violations.reactions import OnViolation, Reactions
from gpustack.agent.violations.standing import StandingViolations
from gpustack.model.placement import ContainerPlacement
from gpustack.wire.mapped import ledger, two_slot_page
from gpustack.wire.mapped.activity import Activity, CardActivity
from tests.fakes.cri import FakeCri
from tests.fakes.nvml import FakeNvml, card

CARD = card(1)  # the UUID of card 0 is the ledger's word for no card
PLACES = {
    "hook": "/etc/vcuda/hook/libvcuda.so",
    "limits": "/etc/vcuda/limits",
    "activity": "/etc/vcuda/activity",
    "ledger": "/etc/vcuda/ledger",
}
OURS = ("hook", "limits", "activity", "ledger")
_FLOCK = struct.Struct("hh4xqqi4x")  # struct flock of 64-bit Linux


@contextlib.contextmanager
def stage(root: pathlib.Path) -> Iterator["Stage"]:
    """Set the stage in a folder of its own."""
    with contextlib.ExitStack() as closing:
        cri = FakeCri(root)
        cri.start()
        closing.callback(cri.stop)
        client = CriClient(cri.endpoint)
        closing.callback(client.close)
        yield Stage(root, cri, client, closing)


class Stage:
    """Containers with shares of one card, and the sampler that watches them.

    Args:
        root: a folder of its own.
        cri: runs the containers.
        client: the agent's client of ``cri``.
        locks: gets the files to close at the end.
    """

    def __init__(
        self, root: pathlib.Path, cri: FakeCri, client: CriClient, locks: contextlib.ExitStack
    ) -> None:
        self._root = root
        self.now_ns = 10_000_000_000
        self.events: list[ObjectEvent] = []
        self.on_violation = OnViolation.THROTTLE  # of the next sampler
        self.killed: list[tuple[str, str]] = []  # pods, each with the reason
        self.nvml = FakeNvml(CARD)
        self.cri = cri
        self._client = client
        self.records = AllocationRecords(CheckpointFile(root / "c.json"))
        self.folders = LimitsFiles(
            root / "containers",
            context_bytes=64 << 20,
            may_run=RuntimeView(client).may_run,
            held=HeldFiles(DescriptorStore()),
            mounts=ShareMounts(None),
        )
        locks.callback(self.folders.held.close)
        self._locks = locks
        self._ledgers: dict[str, int] = {}
        self._names: dict[str, str] = {}  # by the container's ID
        self._hook = root / "hooks" / "0.1.0" / "libvcuda.so"
        self._hook.parent.mkdir(parents=True)
        self._hook.write_text("a hook")
        self._next_pid = 1000
        self._operations = 0
        self.start_sampler()

    def start_sampler(self, *, collects_gpu_time: bool = False) -> None:
        """Begin with a new sampler, as after a restart of the agent."""
        self.proc = proc = self._root / "proc"
        self.escapes = IsolationViolations(
            self.events.append,
            reactions=Reactions(self.on_violation, kill=self._kill, now=lambda: self.now_ns / 1e9),
            standing=StandingViolations(
                now=lambda: self.now_ns / 1e9, clock=lambda: self.now_ns / 1e9
            ),
            hooks=self._root / "hooks",
            proc=proc,
        )
        owners = ProcessOwners(RuntimeView(self._client), proc=proc)
        self.usage = NvmlUsage(
            self.nvml, owners, is_good=collects_gpu_time, clock=lambda: self.now_ns / 1e9
        )
        node = NodeEvents("gpu1", self.events.append)
        self.sampler = ActivitySampler(
            records=self.records,
            folders=self.folders,
            usage=self.usage,
            energy=EnergyAccounts(self.nvml, self.records),
            memory=MemoryJudge(
                self.escapes,
                tell_unowned=node.tell_unowned,
                tell_stranger=node.tell_stranger,
                has_memory=lambda pid: process.has_memory(pid, proc=proc),
            ),
            clock_ns=lambda: self.now_ns,
        )

    def _kill(self, share: Share, reason: str, message: str) -> bool:
        assert message.startswith(f"container {share.owner[1]}: ")
        self.killed.append((share.pod, reason))
        return True

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
        container = self.cri.run(record.uid, name)
        self._names[container] = name
        return container

    def process(self, container: str, *, memory_bytes: int, maps: tuple[str, ...] = OURS) -> int:
        """Start a process on the card that maps these files; returns its host PID."""
        self._next_pid += 1
        pid = self._next_pid
        folder = self.proc / str(pid)
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(f"0::/kubepods/pod1/{container}\n")
        (folder / "comm").write_text("train\n")
        self.write_maps(pid, container, maps)
        there = self.nvml.running.get(CARD.uuid, ())
        found = GpuProcess(pid=pid, memory_bytes=memory_bytes)
        self.nvml.running[CARD.uuid] = (*there, found)
        return pid

    def write_start(self, pid: int, started: int, *, code: int = 0) -> None:
        """Set when a process started, and where its program lies."""
        fields = [str(started)] * 22 + [str(code or started)] * 28
        (self.proc / str(pid) / "stat").write_text(f"{pid} (train) {' '.join(fields)}\n")

    def write_pages(self, pid: int, count: int) -> None:
        """Set the size of a process's memory; without any, it ends."""
        task = self.proc / str(pid) / "task" / str(pid)
        task.mkdir(parents=True)
        (task / "statm").write_text(f"{count} 3 2 1 0 4 0\n")

    def end(self, pid: int) -> None:
        """End a process; the driver tells what it used all the same."""
        shutil.rmtree(self.proc / str(pid))
        there = self.nvml.running[CARD.uuid]
        self.nvml.running[CARD.uuid] = tuple(each for each in there if each.pid != pid)
        self.nvml.ended.setdefault(CARD.uuid, set()).add(pid)

    def write_maps(self, pid: int, container: str, names: tuple[str, ...]) -> None:
        """Set which of our files a process maps.

        "~": another file of that name; "@": one of the same name and inode on another filesystem.
        """
        lines = ["400000-401000 r-xp 0 00:00 2 /bin/train", "401000-402000 rw-p 0 00:00 0"]
        for name in names:
            own = memory_maps.of_file(self._own(container, name.lstrip("~@")))
            device, inode = ("00:00", 1) if own is None else (own[0].decode(), own[1])
            if name.startswith("~"):
                inode = 1
            if name.startswith("@"):
                device = "ff:ffe"
            place = PLACES[name.lstrip("~@")]
            lines.append(f"7f0000000000-7f0000001000 r-xp 0 {device} {inode} {place}")
        (self.proc / str(pid) / "maps").write_text("\n".join(lines))

    def write_ledger(
        self,
        name: str,
        *,
        used_bytes: int = 0,
        busy_ns: int = 0,
        measured_ns: int = 0,
        last_want_ns: int = 0,
        page: int | None = None,
    ) -> None:
        """Let a process of a container live, and write its use as the hook does.

        Args:
            name: the container's.
            used_bytes: of memory.
            busy_ns: GPU time.
            measured_ns: the same without corrections; 0: an older hook doesn't say it.
            last_want_ns: its last launch.
            page: the generation of the activity page that it goes by; left out: the last one's.
        """
        if name not in self._ledgers:
            self._ledgers[name] = os.open(self._file(name, "ledger"), os.O_RDWR)
            self._locks.callback(os.close, self._ledgers[name])
        fd = self._ledgers[name]
        offset = ledger.slot_offset(0)
        units = used_bytes // ledger.UNIT_BYTES
        self._operations += 1
        used = units | self._operations << 36
        entry = ledger.ENTRY.pack(used, 0, 1, busy_ns, last_want_ns, 0, 0, 0)
        data = self._file(name, "activity").read_bytes()
        start = two_slot_page.slot_offset(data[two_slot_page.PUBLISHED_OFFSET])
        last = two_slot_page.SLOT_HEADER.unpack_from(data, start)[0]
        goes_by = last if page is None else page
        os.pwrite(fd, ledger.SLOT_HEADER.pack(0, 7, 1, goes_by) + entry, offset)
        self.write_sum(name, used_bytes, measured_ns)
        lock = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)

    def write_sum(self, name: str, used_bytes: int, measured_ns: int = 0) -> None:
        """Write the sum of all slots with the operation's number, and the card's times."""
        units = used_bytes // ledger.UNIT_BYTES
        words = struct.pack("<QQQ", units | self._operations << 44, self.now_ns, measured_ns)
        os.pwrite(self._ledgers[name], words, ledger.CARDS_OFFSET + 16)

    def cut_ledger(self, name: str) -> None:
        os.truncate(self._file(name, "ledger"), 100)

    def blank_ledger(self, name: str) -> None:
        path = self._file(name, "ledger")
        path.write_bytes(bytes(path.stat().st_size))

    def page(self, name: str) -> Activity:
        return mapped.read_activity(self._file(name, "activity"))

    def card(self, name: str) -> CardActivity:
        (found,) = self.page(name).cards
        return found

    def set_burst(self, name: str, percent: int) -> None:
        """Change a container's ceiling while it runs."""
        (record,) = (each for each in self.records.all() if each.name == name)
        self.folders.prepare(record.uid, record.containers[0].placement, percent)

    def _own(self, container: str, name: str) -> pathlib.Path:
        if name == "hook":
            return self._hook
        return self._file(self._names[container], name)

    def _file(self, name: str, what: str) -> pathlib.Path:
        return self.folders.path(f"uid-{name}", name) / what
