"""The kubelet's PodResources API v1: which device IDs a pod's containers hold.

`List` carries no UID, omits ordinary init containers and is rate-limited; `Get` (on from kubelet
1.34) answers for one pod without the side effect that `List` has on an Allocate in flight.
Source of truth: https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#monitoring-device-plugin-resources
"""

from gpustack.adapters.podresources.client import (
    PodDevices,
    PodResourcesClient,
    PodResourcesUnavailable,
    PodResourcesUnsupported,
)

__all__ = [
    "PodDevices",
    "PodResourcesClient",
    "PodResourcesUnavailable",
    "PodResourcesUnsupported",
]
