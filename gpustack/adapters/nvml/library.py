"""One open NVML library and its view of the host's cards.

Cards are kept by UUID: a handle stays valid while its card is there, and a card that fell off the
bus keeps its place in the inventory, as an unhealthy one.
"""

import ctypes
import logging
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pynvml

from gpustack.adapters.nvml import health, links, processes
from gpustack.adapters.nvml.errors import NvmlError
from gpustack.adapters.nvml.health import CardFault
from gpustack.adapters.nvml.processes import Busy
from gpustack.model.node import Card, arrange
from gpustack.model.topology.link_level import Links

logger = logging.getLogger(__name__)

# CUDA cores in one SM by compute capability (CUDA C++ programming guide, "Compute Capabilities");
# 128 for all others.
_CORES_PER_SM = {
    **dict.fromkeys([(3, 0), (3, 5), (3, 7)], 192),
    **dict.fromkeys([(6, 0), (7, 0), (7, 2), (7, 5), (8, 0)], 64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The host's cards ascending by minor, their links in the same order, and the driver.

    `paths` are the links without NVLink: what PCIe says of every pair.
    """

    cards: tuple[Card, ...]
    links: Links
    driver: str
    cuda: str
    paths: Links = ()


class Nvml:
    """An open library. Calls may come from several threads; NVML itself is thread-safe.

    Args:
        sysfs: where PCI devices stand, for their NUMA nodes.

    Raises:
        NvmlError: no libnvidia-ml.so.1, or no driver behind it.
    """

    def __init__(self, *, sysfs: pathlib.Path = pathlib.Path("/sys/bus/pci/devices")) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlError(f"NVML does not start: {error}") from error
        self._sysfs = sysfs
        self._handles: dict[str, Any] = {}
        self._silent: set[str] = set()  # the cards that didn't answer when last asked
        self._events: Any = None
        self._events_are_old = False

    def close(self) -> None:
        """Close the library."""
        try:
            self._unsubscribe()
            pynvml.nvmlShutdown()
        except pynvml.NVMLError as error:
            raise NvmlError(f"NVML does not stop: {error}") from error

    def inventory(self) -> Inventory:
        """Read all cards that answer and how they are joined.

        A card that doesn't answer, or has the number or UUID of another, is left out: its identity
        is unknown, and the others go on working.

        Raises:
            NvmlError: the driver refused a question that is not about one card.
        """
        try:
            found = self._found(pynvml.nvmlDeviceGetCount())
            driver = str(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as error:
            raise NvmlError(f"reading the cards: {error}") from error
        handles, cards = [each[0] for each in found], tuple(each[1] for each in found)
        self._handles = {card.uuid: handle for handle, card in found}
        arranged, tokens = arrange(cards, links.read(handles, [card.bus for card in cards]))
        _, paths = arrange(cards, links.paths(handles))
        return Inventory(cards=arranged, links=tokens, driver=driver, cuda=_cuda(), paths=paths)

    def faults(self) -> tuple[CardFault, ...]:
        """Send every card a small query; return the cards that don't answer as they should."""
        reasons = {uuid: self._reason(uuid) for uuid in tuple(self._handles)}
        silent = {uuid for uuid, reason in reasons.items() if reason in health.SILENT}
        if self._silent - silent:
            self._events_are_old = True  # cards that are back aren't registered for events
        self._silent = silent
        return tuple(CardFault(uuid=uuid, reason=why) for uuid, why in reasons.items() if why)

    def next_fault(self, timeout_ms: int) -> CardFault | None:
        """Wait for a critical XID that blames the card; None when none came in time.

        Raises:
            NvmlError: the driver offers no events, or a card was lost just now; `faults` works
                still, and this may be tried again.
        """
        if self._events_are_old:
            self._events_are_old = False
            self._unsubscribe()
        try:
            if self._events is None:
                self._events = self._subscribe()
            event = pynvml.nvmlEventSetWait_v2(self._events, timeout_ms)
            xid = int(event.eventData)
            if xid in health.APPLICATION_XIDS:
                return None
            uuid = self._uuid(event.device)
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError as error:
            self._unsubscribe()
            raise NvmlError(f"waiting for events: {error}") from error
        return CardFault(uuid=uuid, reason=f"Xid{xid}")

    def processes(self, uuid: str) -> tuple[processes.GpuProcess, ...]:
        """Return the compute processes on a card, with their host PIDs.

        Raises:
            NvmlError: the card doesn't answer or isn't known.
        """
        handle = self._handle(uuid)
        try:
            return processes.read(handle)
        except pynvml.NVMLError as error:
            raise NvmlError(f"processes of {uuid}: {error}") from error

    def sm_percent(self, uuid: str) -> Mapping[int, int]:
        """Return the latest utilisation of a card's processes, by host PID; idle ones have none.

        Raises:
            NvmlError: the card isn't known.
        """
        return processes.sm_percent(self._handle(uuid))

    def busy(self, uuid: str, *, since_us: int) -> Busy:
        """Return the GPU time of each process on a card after a moment (Unix microseconds).

        Raises:
            NvmlError: the card isn't known.
        """
        return processes.busy(self._handle(uuid), since_us)

    def _handle(self, uuid: str) -> Any:
        handle = self._handles.get(uuid)
        if handle is None:
            raise NvmlError(f"no card with UUID {uuid}")
        return handle

    def _reason(self, uuid: str) -> str:
        """Return why a card should get no new work, nothing when it is well."""
        reason = health.ask(self._handles[uuid])
        if reason not in health.SILENT:
            return reason
        try:
            # A card that was reset, or taken out and found again, may answer to a new handle only.
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError:
            return reason
        now = health.ask(handle)
        if now not in health.SILENT:
            self._handles[uuid] = handle
        return now

    def _uuid(self, device: Any) -> str:
        """Return the UUID of a handle's card; a card that has just been lost can't give it."""
        address = ctypes.cast(device, ctypes.c_void_p).value
        for uuid, handle in tuple(self._handles.items()):
            if ctypes.cast(handle, ctypes.c_void_p).value == address:
                return uuid
        return str(pynvml.nvmlDeviceGetUUID(device))

    def _subscribe(self) -> Any:
        events = pynvml.nvmlEventSetCreate()
        try:
            for uuid, handle in self._handles.items():
                health.listen(uuid, handle, events)
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

    def _found(self, count: int) -> list[tuple[Any, Card]]:
        found: list[tuple[Any, Card]] = []
        for index in range(count):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                card = self._card(handle)
            except (pynvml.NVMLError, ValueError) as error:
                logger.error("a card does not answer and is left out index=%d: %s", index, error)
                continue
            if any(card.minor == other.minor or card.uuid == other.uuid for _, other in found):
                said = "a card has the number or the UUID of another and is left out"
                logger.error("%s index=%d minor=%d uuid=%s", said, index, card.minor, card.uuid)
                continue
            found.append((handle, card))
        return found

    def _card(self, handle: Any) -> Card:
        bus = links.short_bus(pynvml.nvmlDeviceGetPciInfo(handle).busId)
        uuid = str(pynvml.nvmlDeviceGetUUID(handle))
        if not uuid:
            raise ValueError("it has no UUID")
        mig = health.mig_enabled(handle)
        return Card(
            minor=int(pynvml.nvmlDeviceGetMinorNumber(handle)),
            uuid=uuid,
            model=str(pynvml.nvmlDeviceGetName(handle)),
            memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            sms=_multiprocessors(handle),
            numa=_numa(self._sysfs / bus / "numa_node", handle),
            bus=bus,
            healthy=not mig,
            reason=health.MIG_ENABLED if mig else "",
        )


def _cuda() -> str:
    try:
        version = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    except pynvml.NVMLError:
        return ""  # libcuda isn't installed
    return f"{version // 1000}.{version % 1000 // 10}"  # 12020 is 12.2


def _multiprocessors(handle: Any) -> int:
    try:
        cores = int(pynvml.nvmlDeviceGetNumGpuCores(handle))
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    except pynvml.NVMLError:
        return 0  # older than driver 470: the node annotation says 0 for unknown
    return cores // _CORES_PER_SM.get((major, minor), 128)


def _numa(file: pathlib.Path, handle: Any) -> int | None:
    try:
        node = int(file.read_text())
    except (OSError, ValueError):
        node = -1
    if node >= 0:
        return node
    # The firmware doesn't know it (-1), or sysfs lacks the device: the driver may still know it.
    try:
        mask = pynvml.nvmlDeviceGetMemoryAffinity(handle, 1, pynvml.NVML_AFFINITY_SCOPE_NODE)
    except pynvml.NVMLError:
        return None
    word = int(mask[0])
    return (word & -word).bit_length() - 1 if word else None
