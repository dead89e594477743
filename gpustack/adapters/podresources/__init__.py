"""The kubelet's PodResources API v1: which device IDs a pod's containers hold.

Both `List` and `Get` (from kubelet 1.34 on) leave out UIDs and ordinary init
containers, and one rate limit holds for both. `Get` answers for one pod, also for an ended one,
without the side effect that `List` has on an Allocate in flight.
Source of truth: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#monitoring-device-plugin-resources
"""

from gpustack.adapters.podresources.client import (
    PodDevices,
    PodResourcesClient,
    PodResourcesLimited,
    PodResourcesUnavailable,
    PodResourcesUnsupported,
)

__all__ = [
    "PodDevices",
    "PodResourcesClient",
    "PodResourcesLimited",
    "PodResourcesUnavailable",
    "PodResourcesUnsupported",
]
