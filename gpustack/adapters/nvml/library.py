"""One open NVML library and what it says about the host's cards.

Cards are kept by UUID: a handle stays valid while its card is there, and a card that fell off the
bus keeps its place in the inventory, as an unhealthy one.
"""

import logging
import pathlib
from dataclasses import dataclass
from typing import Any

import pynvml

from gpustack.adapters.nvml import links, processes
from gpustack.adapters.nvml.errors import NvmlError
from gpustack.model.device import Card, arrange
from gpustack.model.topology import Links

logger = logging.getLogger(__name__)

# XIDs that a program causes and that say nothing about the card: 13 graphics engine exception,
# 31 memory page fault, 43 stopped processing, 45 preemptive cleanup, 68 video processor exception,
# 109 context switch timeout (docs.nvidia.com/deploy/xid-errors).
_APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})

# CUDA cores in one SM by compute capability (CUDA C++ programming guide, "Compute Capabilities");
# 128 for all others.
_CORES_PER_SM = {(6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFault:
    """Why a card should get no new work: `reason` is one word, such as `Lost` or `Xid79`."""

    uuid: str
    reason: str


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
        self._events: Any = None

    def close(self) -> None:
        """Let go of the library."""
        try:
            self._unsubscribe()
            pynvml.nvmlShutdown()
        except pynvml.NVMLError as error:
            raise NvmlError(f"NVML does not stop: {error}") from error

    def inventory(self) -> Inventory:
        """Read all cards that answer and how they are joined.

        A card that doesn't answer is left out: it can't even say which one it is, and the others
        must go on working.

        Raises:
            NvmlError: the driver refused a question that is not about one card.
        """
        try:
            found = [self._found(index) for index in range(pynvml.nvmlDeviceGetCount())]
            handles = [each[0] for each in found if each is not None]
            cards = tuple(each[1] for each in found if each is not None)
            tokens, paths = links.read(handles), links.paths(handles)
            driver = str(pynvml.nvmlSystemGetDriverVersion())
            cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        except pynvml.NVMLError as error:
            raise NvmlError(f"reading the cards: {error}") from error
        self._handles = {card.uuid: handle for card, handle in zip(cards, handles, strict=True)}
        arranged, arranged_links = arrange(cards, tokens)
        _, arranged_paths = arrange(cards, paths)
        return Inventory(
            cards=arranged,
            links=arranged_links,
            driver=driver,
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",  # 12020 is 12.2
            paths=arranged_paths,
        )

    def faults(self) -> tuple[CardFault, ...]:
        """Ask every card for something small; return those that don't answer."""
        found = []
        for uuid, handle in self._handles.items():
            try:
                pynvml.nvmlDeviceGetMemoryInfo(handle)
            except pynvml.NVMLError_GpuIsLost:
                found.append(CardFault(uuid=uuid, reason="Lost"))
            except pynvml.NVMLError as error:
                logger.debug("card does not answer uuid=%s error=%s", uuid, error)
                found.append(CardFault(uuid=uuid, reason="NoAnswer"))
        return tuple(found)

    def next_fault(self, timeout_ms: int) -> CardFault | None:
        """Wait for a critical XID that blames the card; None when none came in time.

        Raises:
            NvmlError: the driver offers no events, or none while a card is lost; `faults` works
                still, and this may be tried again.
        """
        try:
            if self._events is None:
                self._events = self._subscribe()
            event = pynvml.nvmlEventSetWait_v2(self._events, timeout_ms)
            xid = int(event.eventData)
            if xid in _APPLICATION_XIDS:
                return None
            uuid = str(pynvml.nvmlDeviceGetUUID(event.device))
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
        handle = self._handles.get(uuid)
        if handle is None:
            raise NvmlError(f"no card with UUID {uuid}")
        try:
            return processes.read(handle)
        except pynvml.NVMLError as error:
            raise NvmlError(f"processes of {uuid}: {error}") from error

    def _subscribe(self) -> Any:
        events = pynvml.nvmlEventSetCreate()
        try:
            for handle in self._handles.values():
                kind = pynvml.nvmlEventTypeXidCriticalError
                pynvml.nvmlDeviceRegisterEvents(handle, kind, events)
        except pynvml.NVMLError:
            pynvml.nvmlEventSetFree(events)
            raise
        return events

    def _unsubscribe(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            pynvml.nvmlEventSetFree(events)

    def _found(self, index: int) -> tuple[Any, Card] | None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            return handle, self._card(handle)
        except pynvml.NVMLError as error:
            logger.error("a card does not answer and is left out index=%d: %s", index, error)
            return None

    def _card(self, handle: Any) -> Card:
        bus = short_bus(pynvml.nvmlDeviceGetPciInfo(handle).busId)
        return Card(
            minor=int(pynvml.nvmlDeviceGetMinorNumber(handle)),
            uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
            model=str(pynvml.nvmlDeviceGetName(handle)),
            memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            sms=_multiprocessors(handle),
            numa=_numa(self._sysfs / bus / "numa_node", handle),
            bus=bus,
        )


def short_bus(bus_id: str | bytes) -> str:
    """Return a PCI address as sysfs spells it: NVML's domain has eight digits, in capitals."""
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, _, rest = text.strip("\0").lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


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
    # The firmware doesn't say (-1), or the device hides from sysfs: the driver may still know.
    try:
        mask = pynvml.nvmlDeviceGetMemoryAffinity(handle, 1, pynvml.NVML_AFFINITY_SCOPE_NODE)
    except pynvml.NVMLError:
        return None
    word = int(mask[0])
    return (word & -word).bit_length() - 1 if word else None
