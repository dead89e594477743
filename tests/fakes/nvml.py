"""A driver with the cards of a test; for tests that are not about NVML itself."""

import threading

from gpustack.adapters.nvml import (
    DRIVER_MISMATCH,
    Busy,
    CardFault,
    CardFigures,
    GpuProcess,
    Inventory,
    Nvml,
    NvmlError,
)
from gpustack.adapters.nvml.calls import CallsInFlight
from gpustack.model.node import Card


def card(minor: int, *, memory_gib: int = 80, numa: int | None = 0) -> Card:
    return Card(
        minor=minor,
        uuid=f"GPU-00000000-0000-0000-0000-{minor:012d}",
        model="NVIDIA A100-SXM4-80GB",
        memory_bytes=memory_gib * 1024**3,
        sms=108,
        numa=numa,
        bus=f"0000:{7 + 8 * minor:02x}:00.0",
    )


class FakeNvml(Nvml):
    """Answers from memory; a test changes the answers with `set_faults` and `send_xid`."""

    def __init__(self, *cards: Card, driver: str = "535.261.03") -> None:
        self._cards = cards
        self._driver = driver
        self._lock = threading.Lock()
        self._faults: tuple[CardFault, ...] = ()
        self._xid: CardFault | None = None
        self._arrived = threading.Event()
        self.running: dict[str, tuple[GpuProcess, ...]] = {}
        self.unowned: dict[str, int] = {}  # bytes, by UUID
        self.busy_ns: dict[int, int] = {}  # by PID, until the next query
        self.lag = 0.0  # of the counts of busy time, as a part of their span
        self.span_us = 1
        self.behind_us = 0
        self.ended: dict[str, set[int]] = {}  # PIDs by UUID: no more running, and still counted
        self.busy_percent: dict[int, int] = {}  # by PID
        self.silent: set[str] = set()
        self.opened = 1
        self.left_out: tuple[str, ...] = ()
        self._calls = CallsInFlight()
        self._mismatch = ""
        self._answers = threading.Event()
        self._answers.set()
        self.shown: dict[str, CardFigures] = {}  # by UUID
        self.energy: dict[str, float] = {}  # joules, likewise; of the cards that count

    def close(self) -> None:
        """Nothing is open."""
        self._answers.set()

    def hang(self) -> None:
        """Let the next question about faults not return before `close`."""
        self._answers.clear()

    def replace_driver(self, driver: str, *, agrees: bool) -> None:
        """Let another driver be loaded, which the open library fits or does not."""
        self._mismatch = "" if agrees else "the library and the driver do not agree"
        self._driver = driver
        self.opened += agrees

    def show(self, *cards: Card) -> None:
        """Let other cards be there: some that were found anew, without some, or in other places."""
        self._cards = cards
        self.opened += 1

    def inventory(self) -> Inventory:
        size = len(self._cards)
        links = tuple(
            tuple("X" if row == column else "NV12" for column in range(size)) for row in range(size)
        )
        return Inventory(
            cards=self._cards,
            links=links,
            driver=self._driver,
            cuda="12.2",
            left_out=self.left_out,
        )

    def set_faults(self, *faults: CardFault) -> None:
        with self._lock:
            self._faults = faults

    def send_xid(self, fault: CardFault) -> None:
        with self._lock:
            self._xid = fault
        self._arrived.set()

    def faults(self) -> tuple[CardFault, ...]:
        with self._calls.one():
            self._answers.wait()
        with self._lock:
            if not self._mismatch:
                return self._faults
        return tuple(CardFault(uuid=card.uuid, reason=DRIVER_MISMATCH) for card in self._cards)

    def next_fault(self, timeout_ms: int) -> CardFault | None:
        self._arrived.wait(min(timeout_ms, 100) / 1000)  # short, so that a test ends at once
        self._arrived.clear()
        with self._lock:
            fault, self._xid = self._xid, None
        return fault

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        if uuid not in {each.uuid for each in self._cards} - self.silent:
            raise NvmlError(f"no card with UUID {uuid}")
        return self.running.get(uuid, ())

    def unowned_bytes(self, uuid: str) -> int:
        self.processes(uuid)
        return self.unowned.get(uuid, 0)

    def sm_percent(self, uuid: str, seconds: float = 1.0) -> dict[int, int]:
        return {each.pid: self.busy_percent.get(each.pid, 0) for each in self.processes(uuid)}

    def figures(self, uuid: str) -> CardFigures:
        self.processes(uuid)
        return self.shown.get(uuid, CardFigures())

    def energy_joules(self) -> dict[str, float]:
        if self._mismatch:
            raise NvmlError(self._mismatch)
        return {uuid: each for uuid, each in self.energy.items() if uuid not in self.silent}

    def busy(self, uuid: str, *, since_us: int) -> Busy:
        here = {each.pid for each in self.processes(uuid)} | self.ended.get(uuid, set())
        asked = {pid: self.busy_ns.pop(pid) for pid in here & self.busy_ns.keys()}
        return Busy(
            until_us=since_us + self.span_us,
            lag=self.lag,
            behind_us=self.behind_us,
            busy_ns=asked,
        )
