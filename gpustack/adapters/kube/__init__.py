"""The Kubernetes API server: requests with raw JSON bodies, list and watch.

The ``kubernetes`` package reads credentials and builds the TLS connection pool; nothing else of it
is used, because its object models cost more time than the decisions made on them.
"""

from gpustack.adapters.kube.client import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    KubeClient,
)
from gpustack.adapters.kube.errors import (
    KubeConfigError,
    KubeConfigMissing,
    KubeError,
    KubeUnavailable,
)
from gpustack.adapters.kube.events import EventRecorder, ObjectEvent
from gpustack.adapters.kube.listing import Page
from gpustack.adapters.kube.token_review import TokenReviewer
from gpustack.adapters.kube.watch import Watcher, as_json

__all__ = [
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "EventRecorder",
    "KubeClient",
    "KubeConfigError",
    "KubeConfigMissing",
    "KubeError",
    "KubeUnavailable",
    "ObjectEvent",
    "Page",
    "TokenReviewer",
    "Watcher",
    "as_json",
]
