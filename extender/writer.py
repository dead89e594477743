"""Reads and writes of single pods at the API server."""

import logging
import urllib.parse
from typing import Any, Final

from extender.errors import CannotDecide
from extender.pods import PodState
from gpustack.adapters import kube
from gpustack.model.placement import Placement
from gpustack.wire.annotations import Keys, encode_decision
from gpustack.wire.extender_bodies import PodName

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0  # gpu-retry waits for nobody
_DOTS: Final = frozenset({".", ".."})  # segments that HTTP clients resolve, quoted or not


class PodWriter:
    """One pod at a time, always by UID: a recreated pod of the same name is never written to."""

    def __init__(self, client: kube.KubeClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def read(self, pod: PodName, *, timeout_seconds: float) -> dict[str, Any] | None:
        """Return the pod as the API server has it; None when that pod is gone.

        Raises:
            CannotDecide: the API server gave no answer in time, or refused.
        """
        if not {pod.namespace, pod.name}.isdisjoint(_DOTS):
            return None  # no pod is called so, and the path would lead elsewhere
        path = _path(pod.namespace, pod.name)
        try:
            value = self._client.get(path, timeout_seconds=timeout_seconds)
        except (kube.KubeError, kube.KubeUnavailable) as error:
            if isinstance(error, kube.KubeError) and error.not_found:
                return None
            name = f"{pod.namespace}/{pod.name}"
            raise CannotDecide("ReadFailed", f"pod {name}: {error}") from error
        return value if (value.get("metadata") or {}).get("uid") == pod.uid else None

    def write_decision(
        self, pod: PodState, placement: Placement, time_ns: int, *, timeout_seconds: float
    ) -> dict[str, Any]:
        """Annotate a pod with a decision; returns the pod as it is then.

        Cards that somebody wrote for containers that ask for none are removed, or they would make
        the whole decision unreadable.

        Raises:
            KubeError: it was not written; the pod may be gone.
            KubeUnavailable: it may or may not have been written.
        """
        annotations: dict[str, str | None] = dict.fromkeys(pod.decision_keys)
        annotations.update(encode_decision(self._keys, placement, time_ns))
        return self._client.patch(
            _path(pod.namespace, pod.name),
            {"metadata": {"uid": pod.uid, "annotations": annotations}},
            timeout_seconds=timeout_seconds,
        )

    def write_retry(self, namespace: str, name: str, uid: str, time_ns: int) -> None:
        """Make the scheduler look at a waiting pod again. Losing one is harmless."""
        body = {"metadata": {"uid": uid, "annotations": {self._keys.gpu_retry: str(time_ns)}}}
        try:
            self._client.patch(_path(namespace, name), body, timeout_seconds=_RETRY_SECONDS)
        except kube.KubeError as error:
            logger.debug("no retry written pod=%s/%s error=%s", namespace, name, error)
        except kube.KubeUnavailable as error:
            logger.warning("no retry written pod=%s/%s error=%s", namespace, name, error)


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(name)}"


def _quoted(name: str) -> str:
    """Keep a name from a request body within its segment of the path."""
    return urllib.parse.quote(name, safe="")
