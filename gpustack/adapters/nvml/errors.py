"""Errors of NVML."""

from gpustack.model.errors import GpustackError


class NvmlError(GpustackError):
    """The driver is missing, doesn't answer, or refused a question."""
