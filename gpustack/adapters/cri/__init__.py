"""The container runtime (containerd, CRI-O) through CRI v1: its containers, and whether it has CDI.

Source of truth: https://github.com/kubernetes/cri-api
"""

from gpustack.adapters.cri.cdi import why_no_cdi
from gpustack.adapters.cri.client import (
    CriClient,
    CriUnavailable,
    RuntimeContainer,
    RuntimeVersion,
)
from gpustack.adapters.cri.endpoint import RuntimeEndpointError, endpoint_of

__all__ = [
    "CriClient",
    "CriUnavailable",
    "RuntimeContainer",
    "RuntimeEndpointError",
    "RuntimeVersion",
    "endpoint_of",
    "why_no_cdi",
]
