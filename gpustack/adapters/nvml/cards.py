"""The cards that the driver shows, one by one: what each is and where it stands."""

import logging
import pathlib
from typing import Any

import pynvml

from gpustack.adapters.nvml import health, links
from gpustack.model.node import Card

logger = logging.getLogger(__name__)

# CUDA cores in one SM by compute capability (CUDA C++ programming guide, "Compute Capabilities");
# 128 for all others.
_CORES_PER_SM = {
    **dict.fromkeys([(3, 0), (3, 5), (3, 7)], 192),
    **dict.fromkeys([(6, 0), (7, 0), (7, 2), (7, 5), (8, 0)], 64),
}


def find(sysfs: pathlib.Path) -> list[tuple[Any, Card]]:
    """Return the handle and the card of each that answers, in the order of NVML's indexes.

    Args:
        sysfs: where PCI devices stand, for their NUMA nodes.

    Raises:
        pynvml.NVMLError: the driver doesn't say how many there are.
    """
    found: list[tuple[Any, Card]] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            card = _card(handle, sysfs)
        except (pynvml.NVMLError, ValueError) as error:
            logger.error("a card does not answer and is left out index=%d: %s", index, error)
            continue
        if any(card.minor == other.minor or card.uuid == other.uuid for _, other in found):
            said = "a card has the number or the UUID of another and is left out"
            logger.error("%s index=%d minor=%d uuid=%s", said, index, card.minor, card.uuid)
            continue
        found.append((handle, card))
    return found


def _card(handle: Any, sysfs: pathlib.Path) -> Card:
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
