"""The health of a card: its answers to queries, and the driver's events about it."""

import logging
from dataclasses import dataclass
from typing import Any, Final

import pynvml

logger = logging.getLogger(__name__)

LOST: Final = "Lost"
"""Fell off the bus: only a reset or a new start of the host brings such a card back."""

NO_ANSWER: Final = "NoAnswer"
SILENT: Final = frozenset({LOST, NO_ANSWER})
# A card in MIG mode can't be allocated as one card: CUDA finds its instances, and no card.
MIG_ENABLED: Final = "MigEnabled"

# XIDs that a program causes and that say nothing about the card: 13 graphics engine exception,
# 31 memory page fault, 43 stopped processing, 45 preemptive cleanup, 68 video processor exception,
# 109 context switch timeout (docs.nvidia.com/deploy/xid-errors).
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFault:
    """Why a card should get no new work: one word, as `Lost`, `NoAnswer`, `MigEnabled`, `Xid79`."""

    uuid: str
    reason: str


def ask(handle: Any) -> str:
    """Return why a card should get no new work, nothing when it is well."""
    try:
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError_GpuIsLost:
        return LOST
    except pynvml.NVMLError as error:
        logger.debug("a card does not answer: %s", error)
        return NO_ANSWER
    return MIG_ENABLED if mig_enabled(handle) else ""


def listen(uuid: str, handle: Any, events: Any) -> None:
    """Register a card's critical XIDs with a set of events, where the card supports them.

    Raises:
        pynvml.NVMLError: the driver has no more to give.
    """
    try:
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    except pynvml.NVMLError_NotSupported:
        logger.info("a card has no XID events, its health is polled only uuid=%s", uuid)
    except pynvml.NVMLError_GpuIsLost:
        logger.info("a lost card sends no XID events until it is back uuid=%s", uuid)


def mig_enabled(handle: Any) -> bool:
    """Say whether a card is in MIG mode now."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:
        return False  # a card without MIG, or a driver before MIG
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)
