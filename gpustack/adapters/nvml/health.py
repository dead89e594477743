"""The health of a card: its answers to queries, and the driver's events about it.

Sources of what to do: https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/ (row remapping and
the driver's recovery action), https://docs.nvidia.com/deploy/dynamic-page-retirement/ (cards before
Ampere), and DCGM's health checks (dcgm_errors.h), which drain a card for the same counters.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pynvml

from gpustack.adapters.nvml.xids import ENDS_WORDS, Ends, XidRule, xid_rule

logger = logging.getLogger(__name__)

_XID: Final = "Xid"
_RECOVERY_ACTION: Final = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION in nvml.h of driver 570

LOST: Final = "Lost"
"""Fell off the bus: only a reset or a new start of the host brings such a card back."""

NO_ANSWER: Final = "NoAnswer"
DRIVER_MISMATCH: Final = "DriverMismatch"
SILENT: Final = frozenset({LOST, NO_ANSWER, DRIVER_MISMATCH})
# A card in MIG mode can't be allocated as one card: CUDA finds its instances, and no card.
MIG_ENABLED: Final = "MigEnabled"
ECC_UNCORRECTABLE: Final = "EccUncorrectable"
REMAP_PENDING: Final = "RemapPending"
REMAP_FAILED: Final = "RemapFailed"
RETIREMENT_PENDING: Final = "RetirementPending"
RECOVERY_NEEDED: Final = "RecoveryNeeded"

FAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LOST: "the card has fallen off the bus; boot the host, and replace a card that is lost"
        " again",
        NO_ANSWER: "NVML gives no answer for the card; read `dmesg`, then boot the host",
        DRIVER_MISMATCH: "the open NVML library and the loaded driver are of different versions;"
        " NVML is opened again as soon as they agree, at the latest after a boot",
        MIG_ENABLED: "the card is in MIG mode and can't be given as one card; `nvidia-smi -i UUID"
        " -mig 0` ends it",
        ECC_UNCORRECTABLE: "uncorrectable ECC errors since the driver was loaded or the card reset;"
        " drain and reset the card",
        REMAP_PENDING: "a memory row is to be remapped, which a reset of the card does",
        REMAP_FAILED: "a memory row could not be remapped; replace the card",
        RETIREMENT_PENDING: "a memory page is to be retired, which a reset of the card does",
        RECOVERY_NEEDED: "the driver asks for a reset of the card or a boot of the host;"
        " `nvidia-smi -q` says which",
    }
)
"""What a query can find, and what to do about it."""

ACCEPTABLE: Final = frozenset(
    {ECC_UNCORRECTABLE, REMAP_PENDING, REMAP_FAILED, RETIREMENT_PENDING, RECOVERY_NEEDED}
)
"""Faults of cards that work all the same: a person may put them to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFault:
    """Why a card should get no new work: one word, as `Lost`, `RemapPending`, `Xid79`."""

    uuid: str
    reason: str

    @property
    def xid(self) -> XidRule | None:
        """The rule of the XID that it is; None for what a query finds."""
        number = self.reason.removeprefix(_XID)
        return xid_rule(int(number)) if number != self.reason and number.isdecimal() else None

    @property
    def ends(self) -> Ends | None:
        """What must be seen before the card is tried again; None: that queries find it no more."""
        return None if self.xid is None else self.xid.ends

    @property
    def text(self) -> str:
        """What happened and what to do."""
        if self.xid is None:
            return FAULTS.get(self.reason, self.reason)
        return (
            f"XID {self.xid.number}, {self.xid.meaning}; NVIDIA's action: {self.xid.action}"
            f" ({ENDS_WORDS[self.xid.ends]})"
        )


def xid_fault(uuid: str, number: int) -> CardFault:
    """Return an XID of a card."""
    return CardFault(uuid=uuid, reason=f"{_XID}{number}")


def ask(handle: Any) -> tuple[str, ...]:
    """Return the faults of a card, by their words; none when it is well."""
    try:
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError_GpuIsLost:
        return (LOST,)
    except pynvml.NVMLError_LibRmVersionMismatch:
        return (DRIVER_MISMATCH,)
    except pynvml.NVMLError as error:
        logger.debug("a card does not answer: %s", error)
        return (NO_ANSWER,)
    return tuple(_conditions(handle))


def listen(handles: Mapping[str, Any], events: Any) -> None:
    """Register all cards' critical XIDs with a set of events, where a card supports them.

    Args:
        handles: by UUID; None of a card that doesn't answer.
        events: the set.

    Raises:
        pynvml.NVMLError: the driver refuses every card that might have them.
    """
    present = {uuid: each for uuid, each in handles.items() if each is not None}
    refused: dict[str, pynvml.NVMLError] = {}
    for uuid, handle in present.items():
        try:
            _listen(uuid, handle, events)
        except pynvml.NVMLError as error:
            refused[uuid] = error
    if refused and len(refused) == len(present):
        raise next(iter(refused.values()))
    for uuid, why in refused.items():
        logger.warning(
            "a card's XIDs aren't seen, its health is polled only uuid=%s: %s", uuid, why
        )


def _listen(uuid: str, handle: Any, events: Any) -> None:
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


def _conditions(handle: Any) -> Iterator[str]:
    """Yield what a card that answers says against itself; not every card can be asked all."""
    if mig_enabled(handle):
        yield MIG_ENABLED
    if _asked(_uncorrected, handle, 0):
        yield ECC_UNCORRECTABLE
    _, _, pending, failed = _asked(pynvml.nvmlDeviceGetRemappedRows, handle, (0, 0, 0, 0))
    if failed:
        yield REMAP_FAILED
    if pending:
        yield REMAP_PENDING
    if _asked(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle, 0):
        yield RETIREMENT_PENDING
    if _asked(_recovery_action, handle, 0):
        yield RECOVERY_NEEDED


def _asked(query: Callable[[Any], Any], handle: Any, otherwise: Any) -> Any:
    """Return a card's answer, or `otherwise` where its generation or its driver has none."""
    try:
        return query(handle)
    except pynvml.NVMLError:
        return otherwise


def _uncorrected(handle: Any) -> int:
    kind, counter = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    return int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter))


def _recovery_action(handle: Any) -> int:
    """Return 0 where the driver asks for nothing (NVML_GPU_RECOVERY_ACTION_NONE)."""
    field = pynvml.nvmlDeviceGetFieldValues(handle, [_RECOVERY_ACTION])[0]
    return int(field.value.uiVal) if field.nvmlReturn == pynvml.NVML_SUCCESS else 0
