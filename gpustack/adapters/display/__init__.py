"""`display.GPUDisplay`, the original's view of a node: its methods, and a client."""

from gpustack.adapters.display.client import AgentUnavailable, DisplayClient
from gpustack.adapters.display.service import SERVICE, DisplaySource, methods

__all__ = ["SERVICE", "AgentUnavailable", "DisplayClient", "DisplaySource", "methods"]
