"""Errors of NVML."""

from gpustack.model.errors import GpustackError


class NvmlError(GpustackError):
    """The driver is missing, doesn't answer, or refused a question."""


class NvmlMismatch(NvmlError):
    """The installed library is of another version than the driver that is loaded."""
