"""What a card says of itself beyond its memory's size: load, power, errors.

Each question may be unknown to a card or its driver (NVML_ERROR_NOT_SUPPORTED), or get no answer.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CardFigures:
    """One card now; None where it doesn't say.

    Attributes:
        busy_ratio: of the last sample period, at least one kernel ran (nvmlUtilization_t.gpu).
        memory_busy_ratio: likewise, memory was read or written.
        memory_used_bytes: all contexts and the driver's own.
        power_watts: with all of its circuits.
        celsius: of the GPU's die.
        corrected_errors: ECC errors of its memories since the driver was loaded.
        uncorrected_errors: likewise, those that destroyed data.
    """

    busy_ratio: float | None = None
    memory_busy_ratio: float | None = None
    memory_used_bytes: float | None = None
    power_watts: float | None = None
    celsius: float | None = None
    corrected_errors: float | None = None
    uncorrected_errors: float | None = None


def read(handle: Any) -> CardFigures:
    """Return a card's figures."""
    load = _asked(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    memory = _asked(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    milliwatts = _asked(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    return CardFigures(
        busy_ratio=None if load is None else load.gpu / 100,
        memory_busy_ratio=None if load is None else load.memory / 100,
        memory_used_bytes=None if memory is None else float(memory.used),
        power_watts=None if milliwatts is None else milliwatts / 1000,
        celsius=_asked(
            lambda: float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
        ),
        corrected_errors=_errors(handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        uncorrected_errors=_errors(handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    )


def energy_joules(handle: Any) -> float | None:
    """Return a card's energy since the driver was loaded; None where it doesn't count (Pascal)."""
    millijoules = _asked(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    return None if millijoules is None else millijoules / 1000


def _errors(handle: Any, kind: int) -> float | None:
    return _asked(
        lambda: float(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC))
    )


def _asked(question: Callable[[], _T]) -> _T | None:
    try:
        return question()
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):  # the second is no NVMLError
        return None
