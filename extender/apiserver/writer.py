"""Reads and writes of single pods at the API server."""

import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from extender.cache.decode import Decoder
from extender.cache.pods import PodState
from extender.errors import CannotDecide
from gpustack.adapters import kube
from gpustack.model.placement import Placement
from gpustack.wire.annotations import encode_decision
from gpustack.wire.extender_v1 import PodName
from gpustack.wire.keys import Keys

_DOTS: Final = frozenset({".", ".."})  # segments that HTTP clients resolve, quoted or not


@dataclass
class PodWriter:
    """One pod at a time, always by UID: a recreated pod of the same name is never written to.

    Every write raises KubeError where it was not done (409: the pod has changed, or may not be
    bound; 404: it is gone), and KubeUnavailable where it may or may not have been done.
    """

    client: kube.KubeClient
    keys: Keys
    decoder: Decoder
    now_ns: Callable[[], int]

    def read(self, pod: PodName, *, timeout_seconds: float) -> PodState | None:
        """Return the pod of this name as the API server has it; None when there is none.

        It may be another pod than the one that is asked for: its UID tells.

        Raises:
            CannotDecide: the API server gave no answer in time, or refused.
        """
        if not {pod.namespace, pod.name}.isdisjoint(_DOTS):
            return None  # no pod is called so, and the path would lead elsewhere
        path = _path(pod.namespace, pod.name)
        try:
            raw = self.client.get_raw(path, timeout_seconds=timeout_seconds)
        except (kube.KubeError, kube.KubeUnavailable) as error:
            if isinstance(error, kube.KubeError) and error.not_found:
                return None
            name = f"{pod.namespace}/{pod.name}"
            raise CannotDecide("ReadFailed", f"pod {name}: {error}") from error
        return self.decoder.pod(raw)

    def annotations(self, placement: Placement, time_ns: int) -> dict[str, str]:
        """Return a decision in the form in which it stands on a pod."""
        return encode_decision(self.keys, placement, time_ns)

    def write_decision(
        self, pod: PodState, placement: Placement, time_ns: int, *, timeout_seconds: float
    ) -> PodState:
        """Annotate the very pod that is known here with a decision; returns the pod as it is then.

        It names the pod's ``resourceVersion``: a patch that is carried out late must not put an old
        decision over a newer one. Cards that others wrote for containers that ask for none are
        removed, or they would make the whole decision unreadable.
        """
        annotations: dict[str, str | None] = dict.fromkeys(pod.decision_keys)
        annotations.update(self.annotations(placement, time_ns))
        return self._annotate(pod, annotations, timeout_seconds, _version_of(pod))

    def clear_decision(self, pod: PodState, *, timeout_seconds: float) -> PodState:
        """Remove all cards that stand on a pod, so that no decision does; returns the pod then.

        It names the pod's ``resourceVersion``: carried out late it must not remove a decision.
        """
        return self._annotate(
            pod, dict.fromkeys(pod.decision_keys), timeout_seconds, _version_of(pod)
        )

    def touch(self, pod: PodState, *, timeout_seconds: float) -> PodState:
        """Give a pod a new ``resourceVersion``, and have it looked at again; returns it then."""
        return self._annotate(pod, {self.keys.gpu_retry: str(self.now_ns())}, timeout_seconds)

    def _annotate(
        self,
        pod: PodState,
        annotations: Mapping[str, str | None],
        timeout_seconds: float,
        version: Mapping[str, str] | None = None,
    ) -> PodState:
        # Through the status, for which alone we have the right: a pod's spec can't change that way.
        raw = self.client.patch_raw(
            f"{_path(pod.namespace, pod.name)}/status",
            {"metadata": {"uid": pod.uid, **(version or {}), "annotations": annotations}},
            timeout_seconds=timeout_seconds,
        )
        return self.decoder.pod(raw)

    def bind(
        self,
        pod: PodState,
        node: str,
        annotations: Mapping[str, str],
        *,
        timeout_seconds: float,
    ) -> None:
        """Bind the very pod that is known here, with its decision, in one step or not at all.

        A pod without a decision may have changed since; one with a decision may not. Where it is
        bound, gated or being deleted, the API server answers 409.
        """
        metadata: dict[str, object] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
            metadata.update(_version_of(pod))
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"{_path(pod.namespace, pod.name)}/binding"
        self.client.post(path, body, timeout_seconds=timeout_seconds)


def _version_of(pod: PodState) -> dict[str, str]:
    """What makes a write hold for the pod as it is known, and for no later version of it."""
    return {"resourceVersion": str(pod.version)}


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{_quoted(namespace)}/pods/{_quoted(name)}"


def _quoted(name: str) -> str:
    """Keep a name from a request body within its segment of the path."""
    return urllib.parse.quote(name, safe="")
