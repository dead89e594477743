"""A real API server with the role's admission policies, and the questions of its tests."""

import collections.abc
import dataclasses
import itertools
from typing import Any, Final

from gpustack.adapters.kube import KubeClient, KubeError
from gpustack.wire.user_keys import names_of
from tests.control_plane.fleet import KEYS
from tests.scheduling.cluster import container

PODS: Final = "/api/v1/namespaces/default/pods"
POOL: Final = "gaia.tencent.com/gpu-pool"
RENEWAL: Final = "/api/v1/namespaces/kube-system/serviceaccounts/gpustack-extender/token"
MIRROR: Final = "kubernetes.io/config.mirror"
USER_KEYS: Final = names_of(KEYS)
SPARED: Final = "system:serviceaccount:kube-system:placer"
ENDLESS: Final = 250_000  # of the 256 KiB that all annotations of an object may have
COSTLY: Final = 40_000  # annotations of one object
_NAMES: Final = itertools.count(1)

Json = dict[str, Any]

PLAIN: Final[Json] = {"name": "main", "image": "none"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A control plane with the role's policies.

    Attributes:
        admin: an account with all rights.
        extender: the extender's account, by its token.
        node: the kubelet of gpu1.
        other: the kubelet of gpu2.
        placer: an account of the inventory that may set nodeName.
    """

    admin: KubeClient
    extender: KubeClient
    node: KubeClient
    other: KubeClient
    placer: KubeClient

    def create(self, value: Json) -> str:
        """Create a pod as an administrator; return its path."""
        self.admin.post(PODS, value)
        return f"{PODS}/{value['metadata']['name']}"

    def pod(self, **annotations: str) -> str:
        """Create a pod of one share; return its path."""
        return self.create(pod(annotations=annotations))

    def denied(self, value: Json, client: KubeClient | None = None) -> str:
        """Return why a pod is not created; empty when it would be."""
        return refusal(lambda: (client or self.admin).post(f"{PODS}?dryRun=All", value))

    def patched(self, path: str, body: Json, client: KubeClient | None = None) -> str:
        """Return why an object is not patched; empty when it is."""
        return refusal(lambda: (client or self.admin).patch(path, body))


def refusal(call: collections.abc.Callable[[], object]) -> str:
    """Return what the API server refuses a call with; empty when it doesn't."""
    try:
        call()
    except KubeError as error:
        return str(error)
    return ""


def pod(*containers: Json, annotations: Json | None = None, **fields: Any) -> Json:
    """Return a pod of these containers, or of one share."""
    metadata = {"name": f"p{next(_NAMES)}", "annotations": annotations or {}}
    metadata |= fields.pop("metadata", {})
    spec = {
        "containers": list(containers) or [container("main", 50, 32)],
        "terminationGracePeriodSeconds": 0,
        "schedulerName": "nobody",
        **fields,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def notes(**annotations: str | None) -> Json:
    return {"metadata": {"annotations": annotations}}


def node(name: str, pool: str | None = None) -> Json:
    labels = {} if pool is None else {POOL: pool}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def bind(client: KubeClient, path: str, **metadata: Any) -> str:
    """Bind a pod to gpu1; return what is refused."""
    name = path.rpartition("/")[2]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu1"},
    }
    return refusal(lambda: client.post(f"{path}/binding", body))


def pool_label(name: str | None) -> Json:
    return {"metadata": {"labels": {POOL: name}}}
