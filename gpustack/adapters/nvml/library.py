"""One open NVML library and its view of the host's cards.

Cards are kept by UUID: a handle stays valid while its card is there, and a card that fell off the
bus keeps its place in the inventory, as an unhealthy one.
"""

import contextlib
import ctypes
import logging
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pynvml

from gpustack.adapters.nvml import cards, figures, health, links, loading, processes
from gpustack.adapters.nvml.calls import CallsInFlight
from gpustack.adapters.nvml.cards import Inventory
from gpustack.adapters.nvml.errors import NvmlError
from gpustack.adapters.nvml.figures import CardFigures
from gpustack.adapters.nvml.health import CardFault
from gpustack.adapters.nvml.processes import Busy
from gpustack.model.node import arrange

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Nvml:
    """An open library. Calls may come from several threads; NVML itself is thread-safe.

    A library that the loaded driver refuses, because it is of another version, is closed, taken out
    of the process and opened anew at each `faults`, until both agree.

    Args:
        sysfs: where PCI devices stand, for their NUMA nodes.

    Attributes:
        opened: how many times it was opened, or has found a card anew: `inventory` may differ then.

    Raises:
        NvmlError: no libnvidia-ml.so.1, or no driver behind it.
    """

    def __init__(self, *, sysfs: pathlib.Path = pathlib.Path("/sys/bus/pci/devices")) -> None:
        loading.start()
        self.opened = 1
        self._sysfs = sysfs
        self._calls = CallsInFlight()
        self._asking = threading.Lock()  # one thread at a time asks for faults, and opens again
        self._handles: dict[str, Any] = {}  # None: the library, opened again, lacks the card
        self._silent: set[str] = set()  # the cards that didn't answer when last asked
        self._events: Any = None
        self._events_are_old = False
        self._mismatch = ""  # why the library has to be opened again

    @property
    def hung_seconds(self) -> float:
        """For how long the oldest call into the library has not returned; 0 without one.

        A call that works lasts some seconds at most; a wait for events lasts its own timeout.
        """
        return self._calls.oldest_seconds

    @property
    def problem(self) -> str:
        """Why the library can't be asked, with what to do; empty while it can."""
        return self._mismatch

    def close(self) -> None:
        """Close the library; one with a call that doesn't return is left to the process's end.

        Raises:
            NvmlError: it refuses.
        """
        try:
            self._calls.shut("NVML is closed")
        except NvmlError as error:
            logger.warning("%s", error)
            return
        self._unsubscribe()
        if not self._mismatch:
            loading.stop()

    def inventory(self) -> Inventory:
        """Read all cards that answer and how they are joined.

        A card that doesn't answer, or has the number or UUID of another, is left out: its identity
        is unknown, and the others go on working. One that was in an earlier answer keeps its faults
        known.

        Raises:
            NvmlError: the driver refused a question that is not about one card.
        """
        with self._calls.one():
            try:
                found, left_out = cards.find(self._sysfs, self._calls)
                driver = str(pynvml.nvmlSystemGetDriverVersion())
            except pynvml.NVMLError as error:
                raise NvmlError(f"reading the cards: {error}") from error
            handles, shown = [each[0] for each in found], tuple(each[1] for each in found)
            self._handles = self._handles | {card.uuid: handle for handle, card in found}
            arranged, tokens = arrange(shown, links.read(handles, [card.bus for card in shown]))
            _, paths = arrange(shown, links.paths(handles))
            return Inventory(
                cards=arranged,
                links=tokens,
                driver=driver,
                cuda=cards.cuda(),
                paths=paths,
                left_out=left_out,
            )

    def faults(self) -> tuple[CardFault, ...]:
        """Send every card some small queries; return what they find, a fault a row.

        Raises:
            NvmlError: the library can't be opened again, because a call into it doesn't return.
        """
        with self._asking:
            return self._ask_all()

    def _ask_all(self) -> tuple[CardFault, ...]:
        if self._mismatch:
            self._open_again()
        if self._mismatch:
            found: dict[str, tuple[str, ...]] = dict.fromkeys(
                self._handles, (health.DRIVER_MISMATCH,)
            )
        else:
            with self._calls.one():
                found = {uuid: self._reasons(uuid) for uuid in tuple(self._handles)}
        if any(health.DRIVER_MISMATCH in reasons for reasons in found.values()):
            self._mismatch = self._mismatch or health.FAULTS[health.DRIVER_MISMATCH]
        silent = {uuid for uuid, reasons in found.items() if health.SILENT.intersection(reasons)}
        if self._silent - silent:
            self._events_are_old = True  # cards that are back aren't registered for events
        self._silent = silent
        return tuple(
            CardFault(uuid=uuid, reason=reason)
            for uuid, reasons in found.items()
            for reason in reasons
        )

    def next_fault(self, timeout_ms: int) -> CardFault | None:
        """Wait for a critical XID; None when none came in time.

        Raises:
            NvmlError: the driver offers no events, or a card was lost just now; `faults` works
                still, and this may be tried again.
        """
        with self._calls.one():
            if self._events_are_old:
                self._events_are_old = False
                self._unsubscribe()
            try:
                if self._events is None:
                    self._events = self._subscribe()
                event = pynvml.nvmlEventSetWait_v2(self._events, timeout_ms)
                return health.xid_fault(self._uuid(event.device), int(event.eventData))
            except pynvml.NVMLError_Timeout:
                return None
            except pynvml.NVMLError as error:
                self._unsubscribe()
                raise NvmlError(f"waiting for events: {error}") from error

    def processes(self, uuid: str) -> tuple[processes.GpuProcess, ...]:
        """Return the processes on a card, with their host PIDs.

        Raises:
            NvmlError: the card doesn't answer or isn't known.
        """
        return self._ask(uuid, processes.read)

    def unowned_bytes(self, uuid: str) -> int:
        """Return the memory of a card in use that the driver shows for no process.

        Raises: as `processes`.
        """
        return self._ask(uuid, processes.unowned_bytes)

    def sm_percent(self, uuid: str, seconds: float = 1.0) -> Mapping[int, int]:
        """Return the utilisation of a card's processes in the last seconds, by host PID.

        Idle ones have none.

        Raises:
            NvmlError: the card isn't known, or the library isn't open.
        """
        with self._calls.one():
            return processes.sm_percent(self._handle(uuid), seconds)

    def figures(self, uuid: str) -> CardFigures:
        """Return what a card says of its load, power and errors.

        Raises:
            NvmlError: the card isn't known, or the library isn't open.
        """
        with self._calls.one():
            return figures.read(self._handle(uuid))

    def energy_joules(self) -> Mapping[str, float]:
        """Return the energy of each card that counts it, by UUID, since the driver was loaded.

        Raises:
            NvmlError: the library isn't open.
        """
        handles = tuple(self._handles.items())
        with self._calls.one():
            found = {uuid: figures.energy_joules(each) for uuid, each in handles if each}
        return {uuid: joules for uuid, joules in found.items() if joules is not None}

    def busy(self, uuid: str, *, since_us: int) -> Busy:
        """Return the GPU time of each process on a card after a moment (Unix microseconds).

        Raises:
            NvmlError: the card isn't known, or the library isn't open.
        """
        with self._calls.one():
            return processes.busy(self._handle(uuid), since_us)

    def _ask(self, uuid: str, question: Callable[[Any], _T]) -> _T:
        with self._calls.one():
            try:
                return question(self._handle(uuid))
            except pynvml.NVMLError as error:
                raise NvmlError(f"processes of {uuid}: {error}") from error

    def _handle(self, uuid: str) -> Any:
        handle = self._handles.get(uuid)
        if handle is None:
            raise NvmlError(f"no card with UUID {uuid}")
        return handle

    def _open_again(self) -> None:
        """Close the library and open the one that is installed now; keep why it can't be."""
        try:
            self._calls.shut(health.FAULTS[health.DRIVER_MISMATCH])
            self._unsubscribe()
            with contextlib.suppress(NvmlError):  # an earlier attempt has closed it
                loading.stop()
            loading.unload()
            loading.start()
            found, _ = cards.find(self._sysfs, self._calls)
            # A handle of the library that was closed leads nowhere.
            self._handles = dict.fromkeys(self._handles) | {card.uuid: each for each, card in found}
        except (NvmlError, pynvml.NVMLError) as error:
            self._mismatch = str(error)
            return
        self._mismatch = ""
        self._calls.open()
        self.opened += 1
        logger.warning("NVML was opened again: library and driver agree opened=%d", self.opened)

    def _reasons(self, uuid: str) -> tuple[str, ...]:
        """Return why a card should get no new work, nothing when it is well."""
        known = self._handles[uuid]
        reasons = (health.LOST,) if known is None else health.ask(known)
        if not health.SILENT.intersection(reasons):
            return reasons
        try:
            # A card that was reset, or taken out and found again, may answer to a new handle only.
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError:
            return reasons
        now = health.ask(handle)
        if not health.SILENT.intersection(now):
            self._handles[uuid] = handle
            self.opened += 1  # it may have another minor
        return now

    def _uuid(self, device: Any) -> str:
        """Return the UUID of a handle's card; a card that has just been lost can't give it."""
        address = ctypes.cast(device, ctypes.c_void_p).value
        for uuid, handle in tuple(self._handles.items()):
            if handle and ctypes.cast(handle, ctypes.c_void_p).value == address:
                return uuid
        return str(pynvml.nvmlDeviceGetUUID(device))

    def _subscribe(self) -> Any:
        events = pynvml.nvmlEventSetCreate()
        try:
            health.listen(self._handles, events)
        except pynvml.NVMLError:
            pynvml.nvmlEventSetFree(events)
            raise
        return events

    def _unsubscribe(self) -> None:
        events, self._events = self._events, None
        if events is None:
            return
        try:
            pynvml.nvmlEventSetFree(events)
        except pynvml.NVMLError as error:
            logger.debug("events are not given back: %s", error)
