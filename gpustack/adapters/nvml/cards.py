"""The cards that the driver shows, one by one: what each is and where it stands."""

import functools
import logging
import pathlib
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from gpustack.adapters.nvml import figures, health, links, processes
from gpustack.adapters.nvml.calls import CallsInFlight
from gpustack.model.node import Card
from gpustack.model.topology.link_level import Links
from gpustack.model.units import LARGEST_CARD_BYTES

logger = logging.getLogger(__name__)

# Sixteen cards without persistence mode, which start anew for each reader, take less; and it is
# below the 30 s after which the agent counts a call as hung.
_ANSWER_SECONDS: Final = 20.0

# CUDA cores in one SM by compute capability (CUDA C++ programming guide, "Compute Capabilities");
# 128 for all others.
_CORES_PER_SM = {
    **dict.fromkeys([(3, 0), (3, 5), (3, 7)], 192),
    **dict.fromkeys([(6, 0), (7, 0), (7, 2), (7, 5), (8, 0)], 64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The host's cards ascending by minor, their links in the same order, and the driver.

    `paths` are the links without NVLink: what PCIe says of every pair. `left_out` names each card
    that doesn't answer, and says why.
    """

    cards: tuple[Card, ...]
    links: Links
    driver: str
    cuda: str
    paths: Links = ()
    left_out: tuple[str, ...] = ()


def find(
    sysfs: pathlib.Path, calls: CallsInFlight
) -> tuple[list[tuple[Any, Card]], tuple[str, ...]]:
    """Return the handle and the card of each that answers, and what is wrong with the others.

    Both are in the order of NVML's indexes. A card answers when it says what it is and how it is.

    Args:
        sysfs: where PCI devices stand, for their NUMA nodes.
        calls: asks each card apart from the others.

    Raises:
        pynvml.NVMLError: the driver doesn't say how many there are.
    """
    found: list[tuple[Any, Card]] = []
    left_out: list[str] = []
    count = pynvml.nvmlDeviceGetCount()
    questions = [functools.partial(_ask, index, sysfs) for index in range(count)]
    for index, answer in enumerate(calls.ask_apart(questions, _ANSWER_SECONDS)):
        try:
            handle, card = answer.result(timeout=0)
            _check_identity(card, found)
        except TimeoutError:
            left_out.append(f"card of index {index} gives no answer within {_ANSWER_SECONDS:g} s")
        except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError, ValueError) as error:
            left_out.append(f"card of index {index} does not answer: {error}")
        else:
            found.append((handle, card))
    for each in left_out:
        logger.error("left out: %s", each)
    return found, tuple(left_out)


def _ask(index: int, sysfs: pathlib.Path) -> tuple[Any, Card]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    card = _card(handle, sysfs)
    # A card that hangs in one of these would hold up every look at the cards.
    health.ask(handle)
    figures.read(handle)
    figures.energy_joules(handle)
    processes.try_all(handle)
    links.far_ends(handle)
    return handle, card


def _check_identity(card: Card, others: list[tuple[Any, Card]]) -> None:
    if any(card.minor == other.minor or card.uuid == other.uuid for _, other in others):
        raise ValueError(f"it has minor {card.minor} or UUID {card.uuid} of another card")


def _card(handle: Any, sysfs: pathlib.Path) -> Card:
    bus = links.short_bus(pynvml.nvmlDeviceGetPciInfo(handle).busId)
    uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    if not uuid:
        raise ValueError("it has no UUID")
    memory_bytes = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    if memory_bytes > LARGEST_CARD_BYTES:
        raise ValueError(f"it says that it has {memory_bytes} bytes of memory, as no card has")
    mig = health.mig_enabled(handle)
    return Card(
        minor=int(pynvml.nvmlDeviceGetMinorNumber(handle)),
        uuid=uuid,
        model=str(pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=memory_bytes,
        sms=_multiprocessors(handle),
        numa=_numa(sysfs / bus / "numa_node", handle),
        bus=bus,
        healthy=not mig,
        reason=health.MIG_ENABLED if mig else "",
    )


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


def cuda() -> str:
    """Return the driver's newest CUDA version, such as `12.2`; empty without libcuda."""
    try:
        version = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    except pynvml.NVMLError:
        return ""  # libcuda isn't installed
    return f"{version // 1000}.{version % 1000 // 10}"  # 12020 is 12.2
