"""The kubelet's device plugin API v1beta1: serving it, and registering with the kubelet.

Source of truth: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from gpustack.adapters.deviceplugin.messages import (
    ContainerResponse,
    Device,
    DeviceNode,
    Mount,
    Plugin,
    PluginRefusal,
)
from gpustack.adapters.deviceplugin.registration import (
    KubeletRefusal,
    KubeletUnavailable,
    register,
)
from gpustack.adapters.deviceplugin.server import PluginServer

__all__ = [
    "ContainerResponse",
    "Device",
    "DeviceNode",
    "KubeletRefusal",
    "KubeletUnavailable",
    "Mount",
    "Plugin",
    "PluginRefusal",
    "PluginServer",
    "register",
]
