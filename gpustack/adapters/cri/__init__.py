"""The container runtime (containerd, CRI-O) through CRI v1: which containers run, for which pod.

Source of truth: https://github.com/kubernetes/cri-api
"""

from gpustack.adapters.cri.client import CriClient, CriUnavailable, RuntimeContainer

__all__ = ["CriClient", "CriUnavailable", "RuntimeContainer"]
