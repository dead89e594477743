"""The pods of this node, as the API server's watch shows them.

Pods are in the API's own form, with only the fields that the agent reads. A pod that was just
bound may reach the kubelet before it reaches the agent: a caller that misses one waits for a
change, with a bound, and then asks the API server once (`refresh`).
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable, Watcher, as_json
from gpustack.wire.pods import static_uid

logger = logging.getLogger(__name__)

Pod = Mapping[str, Any]

_LOOK_SECONDS = 0.1  # how soon a stop is noticed


# A watch that ends is opened anew within 5 s, and an API server restarts in less than that again.
_LATE_SECONDS: Final = 30.0
# How long a pod that the kubelet knows may be missing. A watch is milliseconds behind, and then
# the API server is asked; it may be one that was deleted at once, and the kubelet, which makes one
# call at a time, has more of these. While the server is away, nobody else says so.
_WATCH_SECONDS: Final = 0.25
_AWAY_SECONDS: Final = 2.0


def uid_of(pod: Pod) -> str:
    """Return the pod's UID, as the kubelet and the runtime have it.

    Of a static pod that isn't the UID of its mirror, the pod of the API server.
    """
    return static_uid(pod) or str(pod["metadata"]["uid"])


def name_of(pod: Pod) -> tuple[str, str]:
    """Return the pod's namespace and name."""
    return str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])


def _left(deadline: float) -> float:
    """Return the seconds until a deadline (monotonic); a little where it is over."""
    return max(_LOOK_SECONDS, deadline - time.monotonic())


class PodView:
    """This node's pods by UID, kept by a watch.

    Args:
        client: the API server.
        node_name: the node of the pods.
        decode: makes the kept pod of a pod's bytes.
        on_pod: called on the watch's thread with every pod that was added or changed.
        late_seconds: how long the watch may be lost before that is a problem.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        node_name: str,
        decode: Callable[[msgspec.Raw], Pod] = as_json,
        on_pod: Callable[[Pod], None] = lambda _: None,
        late_seconds: float = _LATE_SECONDS,
    ) -> None:
        self._late_seconds = late_seconds
        self._client = client
        self._selector = f"spec.nodeName={node_name}"
        self._decode = decode
        self._on_pod = on_pod
        self._changed = threading.Condition()  # guards what follows
        self._pods: dict[str, Pod] = {}
        self._version = 0
        self._seen = 0  # the resourceVersion that this state is of
        self._watcher = Watcher(
            client,
            "/api/v1/pods",
            field_selector=self._selector,
            decode=decode,
            on_sync=self._replace,
            on_event=self._event,
        )

    @property
    def synced(self) -> bool:
        """Whether the whole list has been read at least once."""
        return self._watcher.synced.is_set()

    @property
    def problem(self) -> str:
        """Why this node's pods are unknown, or out of date; empty while they are known."""
        watcher = self._watcher
        if self.synced and (not watcher.problem or watcher.age_seconds < self._late_seconds):
            return ""
        return watcher.problem or "the API server has not answered yet"

    @property
    def wait_seconds(self) -> float:
        """How long to wait for a pod that isn't here, before the API server is asked."""
        return _AWAY_SECONDS if self._watcher.problem else _WATCH_SECONDS

    def start(self) -> None:
        """Begin to watch."""
        self._watcher.start()

    def stop(self) -> None:
        """End the watch."""
        self._watcher.stop()

    def wait_for_sync(self, timeout_seconds: float) -> bool:
        """Wait for the first list; return whether it came in time."""
        return self._watcher.synced.wait(timeout_seconds)

    def snapshot(self) -> tuple[tuple[Pod, ...], int]:
        """Return all pods and the number of this state."""
        with self._changed:
            return tuple(self._pods.values()), self._version

    def get(self, uid: str) -> Pod | None:
        """Return one pod, None when it is gone or not seen yet."""
        with self._changed:
            return self._pods.get(uid)

    def api_uid(self, uid: str) -> str:
        """Return the API server's UID of a pod: of a static pod that of its mirror."""
        pod = self.get(uid)
        return uid if pod is None else str(pod["metadata"]["uid"])

    def wait_for_change(self, seen: int, deadline: float) -> bool:
        """Wait until the state isn't `seen` any more; False when `deadline` (monotonic) came.

        After the deadline it returns False although the state has changed: callers look again
        after True, and a state that always changes must not keep them beyond their time.
        """
        with self._changed:
            timeout = deadline - time.monotonic()
            return timeout > 0 and self._changed.wait_for(lambda: self._version != seen, timeout)

    def wait_or_stop(self, seen: int, stop: threading.Event, seconds: float) -> None:
        """Wait for a change, for `stop`, or for so many seconds."""
        deadline = time.monotonic() + seconds
        while not stop.is_set() and time.monotonic() < deadline:
            if self.wait_for_change(seen, min(deadline, time.monotonic() + _LOOK_SECONDS)):
                return

    def is_gone(self, uid: str, pod: tuple[str, str], timeout_seconds: float) -> bool:
        """Ask the API server whether the pod (namespace, name) with this UID no longer exists.

        Raises:
            KubeError: refused.
            KubeUnavailable: no answer in time.
        """
        namespace, name = pod
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        try:
            return uid_of(self._client.get(path, timeout_seconds=timeout_seconds)) != uid
        except KubeError as error:
            # A node may only read its own pods: a pod of that name elsewhere gives 403. A server
            # that doesn't know the node of its pods yet gives 403 for all of them: for a pod that
            # our watch shows, 403 is no proof.
            if error.not_found or (error.reason == "Forbidden" and self.get(uid) is None):
                return True
            raise

    def is_replaced(self, pod: Pod, timeout_seconds: float) -> bool:
        """Ask the API server whether this pod is gone, though the watch shows it.

        False where it doesn't answer, or the watch is lost: then nothing says so.
        """
        if self.problem:
            return False
        try:
            return self.is_gone(uid_of(pod), name_of(pod), timeout_seconds)
        except (KubeError, KubeUnavailable) as error:
            logger.info("not known whether a pod is gone pod=%s/%s: %s", *name_of(pod), error)
            return False

    def refresh(self, timeout_seconds: float) -> None:
        """Read the list from the API server now, and go on from there.

        A list that is older than the watch's last event changes nothing. A later event that the
        list had already changes nothing either.

        Raises:
            KubeError: refused.
            KubeUnavailable: no answer in time.
        """
        params = {"fieldSelector": self._selector}  # without a resourceVersion it is consistent
        deadline = time.monotonic() + timeout_seconds
        pods: list[Pod] = []
        version = 0
        for page in self._client.pages("/api/v1/pods", params, timeout=lambda: _left(deadline)):
            pods += map(self._decode, page.items)
            version = int(page.version)
        with self._changed:
            if version >= self._seen:
                self._pods = {uid_of(pod): pod for pod in pods}
                self._seen = version
            self._version += 1
            self._changed.notify_all()

    def _replace(self, pods: Sequence[Pod]) -> None:
        with self._changed:
            self._pods = {uid_of(pod): pod for pod in pods}
            # The version may be lower: an API server restored from a copy counts from there.
            self._seen = int(self._watcher.version)
            self._version += 1
            self._changed.notify_all()
        logger.info("pods of this node listed count=%d", len(pods))
        for pod in pods:
            self._on_pod(pod)

    def _event(self, kind: str, pod: Pod) -> None:
        version = int(pod["metadata"]["resourceVersion"])
        with self._changed:
            if version > self._seen:
                self._seen = version
                if kind == "DELETED":
                    self._pods.pop(uid_of(pod), None)
                else:
                    self._pods[uid_of(pod)] = pod
                self._version += 1
                self._changed.notify_all()
            current = self._pods.get(uid_of(pod))
        if current is not None:
            self._on_pod(current)
