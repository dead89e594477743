"""NVML, the driver's management library: cards, how they are joined, health, processes.

The only importer of `pynvml`. Source of truth: https://docs.nvidia.com/deploy/nvml-api/
"""

from gpustack.adapters.nvml.errors import NvmlError
from gpustack.adapters.nvml.health import LOST, CardFault
from gpustack.adapters.nvml.library import Inventory, Nvml
from gpustack.adapters.nvml.processes import Busy, GpuProcess

__all__ = ["LOST", "Busy", "CardFault", "GpuProcess", "Inventory", "Nvml", "NvmlError"]
