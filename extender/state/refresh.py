"""A look at the API server itself, before an instance that was idle decides.

Beside each scheduler stands an extender, and the leader asks the one beside it. One that hasn't
written for a while may have a leader before it whose last writes its watches haven't shown yet. So
before it writes again it reads what it decides on with a consistent read (a list without a
``resourceVersion``): the unbound pods, which may have cards reserved; where the pod's namespace has
a quota, the pods of that; the node, and the pods there. This goes on, node by node, until its watch
of pods has come as far as the first of these reads.

A list from the API server's store costs it more than a decision costs us, so requests that arrive
together take turns: the first one reads, and its decision, once the watch shows it, spares the
others theirs.

What is read only adds to the view: pods that have ended are the watch's to tell.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from extender.errors import CannotDecide
from extender.state.reading import Reading
from extender.state.view import ClusterView
from gpustack.adapters import kube

_IDLE_SECONDS: Final = 10.0  # below any lease of a scheduler's leader (15 s)
_CATCH_UP_SECONDS: Final = 0.5  # a decision stands in the watch within a few milliseconds
_PODS: Final = "/api/v1/pods"

_List = tuple[str, str]
"""A collection, and a field selector."""


class Refresh:
    """Knows what must be read, and reads it."""

    def __init__(
        self,
        client: kube.KubeClient,
        reading: Reading,
        view: ClusterView,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compose; ``shown`` wants to hear of the watch of pods."""
        self._client = client
        self._reading = reading
        self._view = view
        self._clock = clock
        self._lock = threading.Lock()
        self._turn = threading.RLock()  # one reads at a time; taken before the other
        self._moved = threading.Condition()
        self._shown = 0  # the `resourceVersion` that the watch of pods has come to
        self._until = float("-inf")
        self._first_version = 0  # of the first read since we were idle; 0 before it
        self._read: set[_List] = set()

    def wrote(self) -> None:
        """Remember that a decision was just written."""
        with self._lock:
            self._until = self._clock() + _IDLE_SECONDS

    def shown(self, version: str) -> None:
        """Learn that the view has taken what the watch of pods shows, up to this version."""
        with self._moved:
            self._shown = int(version)
            self._moved.notify_all()

    def due(self, node: str, namespace: str) -> bool:
        """Say whether a decision about a pod of this namespace on this node needs a read first."""
        with self._lock:
            if self._clock() > self._until:
                self._first_version = 0
                self._read.clear()
            if self._first_version and self._shown >= self._first_version:
                return False
            return not self._read.issuperset(self._lists(node, namespace))

    def read(self, node: str, namespace: str, *, timeout: Callable[[], float]) -> None:
        """Read what a decision about a pod of this namespace on this node may depend on.

        Args:
            node: where the pod is to go.
            namespace: whose quota counts.
            timeout: gives the seconds that are left; raises when none are.

        Raises:
            CannotDecide: the API server gave no answer in time, or refused.
        """
        alone = self._turn.acquire(blocking=False)
        if not alone and not self._turn.acquire(timeout=timeout()):
            raise CannotDecide("Busy", f"node {node}: earlier requests still read the API server")
        try:
            if alone or not self._spared(node, namespace, timeout()):
                self._read_all(node, namespace, timeout)
        finally:
            self._turn.release()

    def _spared(self, node: str, namespace: str, seconds: float) -> bool:
        """Wait until the watch shows the decision of whoever read before; True when it does."""
        with self._moved:
            return self._moved.wait_for(
                lambda: not self.due(node, namespace), min(_CATCH_UP_SECONDS, seconds)
            )

    def _read_all(self, node: str, namespace: str, timeout: Callable[[], float]) -> None:
        began = self._clock()
        try:
            # First: only the lists are remembered as read, and then the node has been, too.
            path = f"/api/v1/nodes/{node}"
            raw = self._client.get_raw(path, timeout_seconds=timeout())
            self._view.set_node(self._reading.node(raw))
            for each in self._lists(node, namespace):
                self._list(each, began, timeout)
        except kube.KubeError as error:
            if not error.not_found:
                raise CannotDecide("ReadFailed", f"node {node}: {error}") from error
            self._view.drop_node(node)
        except kube.KubeUnavailable as error:
            raise CannotDecide("ReadFailed", f"node {node}: {error}") from error

    def _lists(self, node: str, namespace: str) -> list[_List]:
        """Return what is wanted, in order: a pod bound meanwhile stands in a later list then."""
        wanted = [(_PODS, "spec.nodeName=")]
        if self._view.quota.of(namespace) is not None:
            wanted.append((f"/api/v1/namespaces/{namespace}/pods", ""))
        return [*wanted, (_PODS, f"spec.nodeName={node}")]

    def _list(self, wanted: _List, began: float, timeout: Callable[[], float]) -> None:
        with self._lock:
            if wanted in self._read:
                return
        path, selector = wanted
        version = 0
        for page in self._client.pages(path, {"fieldSelector": selector}, timeout=timeout):
            self._view.learn_pods([self._reading.pod(item) for item in page.items])
            version = int(page.version)
        with self._lock:
            self._first_version = self._first_version or version
            self._read.add(wanted)
            self._until = max(self._until, began + _IDLE_SECONDS)
