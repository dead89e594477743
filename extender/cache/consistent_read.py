"""A look at the API server itself, before an instance that was idle decides.

Beside each scheduler stands an extender, and the leader asks the one beside it. One that hasn't
written for a while may have a leader before it whose last writes its watches haven't shown yet. So
before it writes again it reads what it decides on with a consistent read (a list without a
``resourceVersion``): the unbound pods, which may have cards reserved; where the pod's namespace has
a quota, the pods of that; the node, and the pods there. This goes on, node by node, until its
watches have come as far as the first of these reads: that of pods for the lists, that of nodes for
the node.

A list from the API server's store costs it more than a decision costs us, so requests that arrive
together take turns: the first one reads, and its decision, once the watch shows it, spares the
others theirs.

A tenant's pods that wait may take longer to read than a decision may take. So after the first page
of a list that goes on, the pod in question is changed: a watch that isn't behind shows this at
once, and has come as far as the list by then, whose rest is left.

What is read only adds to the cache: pods that have ended are the watch's to tell.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Final

from extender.cache.cache import ClusterCache
from extender.cache.decode import Decoder
from extender.errors import CannotDecide
from gpustack.adapters import kube

_IDLE_SECONDS: Final = 10.0  # below any lease of a scheduler's leader (15 s)
_CATCH_UP_SECONDS: Final = 0.5  # a decision stands in the watch within a few milliseconds
_FIRST_PAGE: Final = 16  # pods of 9 MB at most
_PODS: Final = "/api/v1/pods"

_List = tuple[str, str]
"""A collection, and a field selector."""


class ConsistentRead:
    """Knows what must be read, and reads it."""

    def __init__(
        self,
        client: kube.KubeClient,
        decoder: Decoder,
        cache: ClusterCache,
        *,
        clock: Callable[[], float],
    ) -> None:
        """Compose; ``shown`` and ``nodes_shown`` want to hear of the watches."""
        self._client = client
        self._decoder = decoder
        self._cache = cache
        self._clock = clock
        self._lock = threading.Lock()
        self._read_lock = threading.RLock()  # one reads at a time; taken before the other
        self._moved = threading.Condition()
        # The `resourceVersion` that the watches of pods and nodes have come to.
        self._shown = 0
        self._nodes_shown = 0
        self._until = float("-inf")
        self._first_version = 0  # of the first read since we were idle; 0 before it
        self._read: set[_List] = set()
        self._read_nodes: set[str] = set()

    def wrote(self) -> None:
        """Remember that a decision was just written."""
        with self._lock:
            self._until = self._clock() + _IDLE_SECONDS

    def shown(self, version: str) -> None:
        """Learn that the cache has taken what the watch of pods shows, up to this version."""
        with self._moved:
            if int(version) < self._shown:
                self._forget()
            self._shown = int(version)
            self._moved.notify_all()

    def nodes_shown(self, version: str) -> None:
        """Learn that the cache has taken what the watch of nodes shows, up to this version."""
        with self._moved:
            if int(version) < self._nodes_shown:
                self._forget()
            self._nodes_shown = int(version)
            self._moved.notify_all()

    def _forget(self) -> None:
        """Forget what was read: versions go back where the server's store was restored."""
        with self._lock:
            self._start_over()

    def _start_over(self) -> None:
        self._first_version = 0
        self._read.clear()
        self._read_nodes.clear()

    def due(self, node: str, namespace: str) -> bool:
        """Say whether a decision about a pod of this namespace on this node needs a read first."""
        with self._lock:
            if self._clock() > self._until:
                self._start_over()
            return self._node_due(node) or bool(self._lists_due(node, namespace))

    def _node_due(self, node: str) -> bool:
        caught_up = 0 < self._first_version <= self._nodes_shown
        return not caught_up and node not in self._read_nodes

    def _lists_due(self, node: str, namespace: str) -> list[_List]:
        if 0 < self._first_version <= self._shown:
            return []
        return [each for each in self._lists(node, namespace) if each not in self._read]

    def read(
        self,
        node: str,
        namespace: str,
        *,
        timeout: Callable[[], float],
        change_pod: Callable[[], None],
    ) -> None:
        """Read what a decision about a pod of this namespace on this node may depend on.

        Args:
            node: where the pod is to go.
            namespace: the pod's, for its quota.
            timeout: gives the seconds that are left; raises when none are.
            change_pod: has the watch of pods show something new, whatever comes of it.

        Raises:
            CannotDecide: the API server gave no answer in time, or refused.
        """
        began = self._clock()
        try:
            with self._lock:
                node_due = self._node_due(node)
            if node_due:  # one object: it waits for no other read
                self._read_node(node, timeout)
            self._read_lists(node, namespace, began, timeout, change_pod)
        except (kube.KubeError, kube.KubeUnavailable) as error:
            if not isinstance(error, kube.KubeError) or not error.not_found:
                raise CannotDecide("ReadFailed", f"node {node}: {error}") from error
            self._cache.drop_node(node)

    def _read_node(self, node: str, timeout: Callable[[], float]) -> None:
        raw = self._client.get_raw(f"/api/v1/nodes/{node}", timeout_seconds=timeout())
        self._cache.set_node(self._decoder.node(raw))
        with self._lock:
            self._read_nodes.add(node)

    def _read_lists(
        self,
        node: str,
        namespace: str,
        began: float,
        timeout: Callable[[], float],
        change_pod: Callable[[], None],
    ) -> None:
        alone = self._read_lock.acquire(blocking=False)
        if not alone and not self._read_lock.acquire(timeout=timeout()):
            raise CannotDecide("Busy", f"node {node}: earlier requests still read the API server")
        try:
            if not alone:
                self._wait_for_watch(node, namespace, timeout())
            for each in self._due_now(node, namespace):
                for number in self._list(each, began, timeout):
                    if number == 1 and self._due_now(node, namespace):
                        change_pod()
                        self._wait_for_watch(node, namespace, timeout())
                    if not self._due_now(node, namespace):
                        return  # the other lists may be as long
        finally:
            self._read_lock.release()

    def _wait_for_watch(self, node: str, namespace: str, seconds: float) -> None:
        """Let the watch show what was written a moment ago: it spares our read."""
        with self._moved:
            self._moved.wait_for(
                lambda: not self._due_now(node, namespace), min(_CATCH_UP_SECONDS, seconds)
            )

    def _due_now(self, node: str, namespace: str) -> list[_List]:
        with self._lock:
            return self._lists_due(node, namespace)

    def _lists(self, node: str, namespace: str) -> list[_List]:
        """Return what is wanted, in order: a pod bound meanwhile stands in a later list then."""
        wanted = [(_PODS, "spec.nodeName=")]
        if self._cache.quota.of(namespace) is not None:
            wanted.append((f"/api/v1/namespaces/{namespace}/pods", ""))
        return [*wanted, (_PODS, f"spec.nodeName={node}")]

    def _list(self, wanted: _List, began: float, timeout: Callable[[], float]) -> Iterator[int]:
        """Read a list; yields the number of each page, from 1, that another one follows."""
        path, selector = wanted
        selectors = {"fieldSelector": selector}
        pages = self._client.pages(path, selectors, timeout=timeout, first=_FIRST_PAGE)
        for number, page in enumerate(pages, 1):
            self._cache.learn_pods([self._decoder.pod(item) for item in page.items])
            with self._lock:
                # All pages are true at the version of the first one.
                self._first_version = self._first_version or int(page.version)
                self._until = max(self._until, began + _IDLE_SECONDS)
            if page.following:
                yield number
        with self._lock:
            self._read.add(wanted)
