"""A queue of writes to pods, so that no call of the kubelet waits for the API server.

A pod has one pending patch: a newer one is merged into it. A patch is tried again with growing
pauses while the server is away or overloaded, and dropped when the pod is gone, when another pod
has its name by now, or when the server refuses it for good.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable

logger = logging.getLogger(__name__)

KILL_SECONDS: Final = 1
"""The least grace with which the API server keeps a pod until its kubelet has ended it."""
_FIRST_PAUSE_SECONDS = 0.1
_LAST_PAUSE_SECONDS = 30.0
_ATTEMPTS = 40  # about 20 minutes: longer than a control plane's restart
_CALL_SECONDS = 5.0
_LOOK_SECONDS = 0.1  # how soon a stop is noticed


@dataclasses.dataclass(slots=True, kw_only=True)
class _Patch:
    namespace: str
    name: str
    annotations: dict[str, str | None]  # None takes one away
    status: dict[str, Any]
    delete: bool = False
    attempts: int = 0
    due: float = 0.0


class PodWrites:
    """Writes through `pods/status`, the one way that a node's identity has, and deletes."""

    def __init__(self, *, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._wake = threading.Condition()  # guards what follows
        self._patches: dict[str, _Patch] = {}
        self._dropped = 0

    @property
    def pending(self) -> int:
        """How many pods have a patch waiting."""
        with self._wake:
            return len(self._patches)

    @property
    def dropped(self) -> int:
        """How many patches were given up."""
        with self._wake:
            return self._dropped

    def annotate(
        self,
        *,
        uid: str,
        namespace: str,
        name: str,
        annotations: Mapping[str, str | None],
        status: Mapping[str, Any] | None = None,
    ) -> None:
        """Queue a patch of a pod's annotations, and of its status; returns at once.

        A value of None takes an annotation away. The fields of `status` go in the same call.
        """
        with self._wake:
            patch = self._queued(uid, namespace, name)
            patch.annotations.update(annotations)
            patch.status.update(status or {})

    def delete(self, *, uid: str, namespace: str, name: str) -> None:
        """Queue a pod's deletion, with `KILL_SECONDS` of grace; returns at once."""
        with self._wake:
            self._queued(uid, namespace, name).delete = True

    def run(self, stop: threading.Event) -> None:
        """Send the patches that are due, until `stop` is set."""
        while not stop.is_set():
            uid, patch = self._next()
            if patch is not None:
                self._send(uid, patch)

    def _queued(self, uid: str, namespace: str, name: str) -> _Patch:
        """Return a pod's pending patch, due now; `_wake` is held."""
        patch = self._patches.setdefault(
            uid, _Patch(namespace=namespace, name=name, annotations={}, status={})
        )
        patch.due = self._clock()
        self._wake.notify_all()
        return patch

    def _next(self) -> tuple[str, _Patch | None]:
        """Take the patch that is due; wait a moment for one."""
        with self._wake:
            if not self._patches:
                self._wake.wait(_LOOK_SECONDS)
                return "", None
            uid, patch = min(self._patches.items(), key=lambda each: each[1].due)
            wait = patch.due - self._clock()
            if wait > 0:
                self._wake.wait(min(wait, _LOOK_SECONDS))
                return "", None
            return uid, self._patches.pop(uid)

    def _send(self, uid: str, patch: _Patch) -> None:
        path = f"/api/v1/namespaces/{patch.namespace}/pods/{patch.name}"
        body: dict[str, Any] = {"metadata": {"uid": uid, "annotations": patch.annotations}}
        if patch.status:
            body["status"] = patch.status
        try:
            if patch.annotations or patch.status:
                self._client.patch(f"{path}/status", body, timeout_seconds=_CALL_SECONDS)
            if patch.delete:
                options = {"gracePeriodSeconds": KILL_SECONDS, "preconditions": {"uid": uid}}
                self._client.delete(path, options, timeout_seconds=_CALL_SECONDS)
        except KubeUnavailable as error:
            self._again(uid, patch, error)
        except KubeError as error:
            if _is_gone(error):
                namespace, name = patch.namespace, patch.name
                logger.info("pod is gone, patch dropped pod=%s/%s: %s", namespace, name, error)
            elif error.retryable or error.conflict:
                self._again(uid, patch, error)
            else:
                self._give_up(patch, error)
        else:
            written = {**patch.annotations, **patch.status}
            done = "deleted" if patch.delete else "written"
            logger.info("%s pod=%s/%s %s", done, patch.namespace, patch.name, written)

    def _again(self, uid: str, patch: _Patch, error: KubeError | KubeUnavailable) -> None:
        patch.attempts += 1
        if patch.attempts >= _ATTEMPTS:
            self._give_up(patch, error)
            return
        pause = min(_LAST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(patch.attempts, 10))
        patch.due = self._clock() + pause
        logger.warning("pod not annotated yet pod=%s/%s: %s", patch.namespace, patch.name, error)
        with self._wake:
            newer = self._patches.get(uid)
            if newer is not None:
                # A patch was queued while this one was under way: its values win, its time stands.
                newer.annotations = {**patch.annotations, **newer.annotations}
                newer.status = {**patch.status, **newer.status}
                newer.delete = newer.delete or patch.delete
                newer.attempts = patch.attempts
            else:
                self._patches[uid] = patch

    def _give_up(self, patch: _Patch, error: KubeError | KubeUnavailable) -> None:
        logger.error("pod not annotated pod=%s/%s: %s", patch.namespace, patch.name, error)
        with self._wake:
            self._dropped += 1


def _is_gone(error: KubeError) -> bool:
    """Say whether there is no such pod, or another of that name: the UID in the request differs.

    The API server refuses other patches, too, as invalid, and other deletions by a conflict
    (Preconditions.Check of k8s.io/apiserver 1.34 pkg/storage/interfaces.go).
    """
    patched = error.reason == "Invalid" and "metadata.uid: Invalid value" in error.message
    deleted = error.conflict and "Precondition failed: UID in precondition" in error.message
    return patched or deleted or error.reason == "NotFound"
