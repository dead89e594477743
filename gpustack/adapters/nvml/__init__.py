"""NVML, the driver's management library: cards, how they are joined, health, processes.

The only importer of `pynvml`. Source of truth: https://docs.nvidia.com/deploy/nvml-api/
"""

from gpustack.adapters.nvml.cards import Inventory
from gpustack.adapters.nvml.errors import NvmlError, NvmlMismatch
from gpustack.adapters.nvml.figures import CardFigures
from gpustack.adapters.nvml.health import (
    ACCEPTABLE,
    DRIVER_MISMATCH,
    FAULTS,
    LOST,
    SILENT,
    CardFault,
    xid_fault,
)
from gpustack.adapters.nvml.library import Nvml
from gpustack.adapters.nvml.processes import Busy, GpuProcess
from gpustack.adapters.nvml.xids import ENDS_WORDS, XID_RULES, Ends, XidRule

__all__ = [
    "ACCEPTABLE",
    "DRIVER_MISMATCH",
    "ENDS_WORDS",
    "FAULTS",
    "LOST",
    "SILENT",
    "XID_RULES",
    "Busy",
    "CardFault",
    "CardFigures",
    "Ends",
    "GpuProcess",
    "Inventory",
    "Nvml",
    "NvmlError",
    "NvmlMismatch",
    "XidRule",
    "xid_fault",
]
