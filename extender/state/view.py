"""The cluster as the extender knows it: what the watches said, and what was decided here.

Everything in it can be rebuilt from the API server, so an instance that starts later, or beside
this one, sees the same. Pods that ask for no GPU are kept only while they wait for a node, so that
a question about one needs no look at the API server.
"""

import collections
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from extender.state.holdings import Holdings
from extender.state.limits import Limits
from extender.state.nominated import Nominated
from extender.state.pods import PodState, older, told
from extender.state.reading import NodeState
from extender.state.reservations import Reservations
from gpustack.model.device import Node
from gpustack.model.holding import Placement
from gpustack.model.quota import Quota, Usage

_TOMBSTONES: Final = 10_000  # pods that are gone, remembered longer than any request takes


class ClusterView:
    """Nodes, pods and decisions. Hold ``lock`` from a question to the decision it leads to."""

    def __init__(
        self,
        *,
        reservation_seconds: float,
        now_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
        on_room: Callable[[], None],
    ) -> None:
        """Start empty.

        Args:
            reservation_seconds: how long an unbound pod keeps its cards.
            now_ns: the clock, Unix nanoseconds.
            clock: monotonic seconds.
            on_room: called, with the lock held, when cards may have become free.
        """
        self.lock = threading.RLock()
        self._clock = clock
        self._on_room = on_room
        self._holdings = Holdings()
        self._nominated = Nominated()
        self._reservations = Reservations(seconds=reservation_seconds, now_ns=now_ns, clock=clock)
        self._pods: dict[str, PodState] = {}
        self._node_versions: dict[str, int] = {}
        self._gone: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._limits = Limits(self._pods, self._holdings)
        self._room = False

    # What the watches say.

    def sync_nodes(self, nodes: Sequence[NodeState]) -> None:
        """Replace all nodes."""
        with self.lock:
            for name in self._holdings.node_names - {each.node.name for each in nodes}:
                self.drop_node(name)
            for each in nodes:
                self.set_node(each)

    def set_node(self, state: NodeState) -> None:
        """Learn of a node, or what has changed of it; older news than what is known is dropped."""
        with self.lock:
            name = state.node.name
            if state.version < self._node_versions.get(name, 0):
                return
            self._node_versions[name] = state.version
            if self._holdings.set_node(state.node):
                self._limits.count(self._holdings.holders(name))
            self._tell_room()

    def node_event(self, kind: str, state: NodeState) -> None:
        """Take one change of a node."""
        if kind == "DELETED":
            self.drop_node(state.node.name)
        else:
            self.set_node(state)

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        with self.lock:
            self._holdings.drop_node(name)
            self._node_versions.pop(name, None)
            self._limits.drop(self._holdings.holders(name))

    def sync_pods(self, pods: Sequence[PodState], version: int) -> None:
        """Replace all pods by a list at ``version``; pods that we read later than it stay."""
        with self.lock:
            listed = {pod.uid for pod in pods}
            for pod in list(self._pods.values()):
                if pod.uid not in listed and pod.version <= version:
                    self._remove(pod.uid)
            for pod in pods:
                self._learn(pod)
            self._tell_room()

    def learn_pods(self, pods: Iterable[PodState]) -> None:
        """Take what a read of ours says of some pods; what it doesn't name stays as it is."""
        with self.lock:
            for pod in pods:
                self.add_pod(pod)

    def pod_event(self, kind: str, pod: PodState) -> None:
        """Take one change of a pod."""
        with self.lock:
            if kind == "DELETED":
                self._remove(pod.uid)
            else:
                self._learn(pod)
            self._tell_room()

    def set_quota(self, quota: Quota) -> None:
        """Let another quota hold from now on."""
        with self.lock:
            self._room |= self._limits.replace(quota)  # cheaper to ask than to compare
            self._tell_room()

    # Questions; hold the lock as long as the answer has to be true.

    @property
    def node_names(self) -> frozenset[str]:
        """The nodes that are known."""
        with self.lock:
            return self._holdings.node_names

    @property
    def node_count(self) -> int:
        """How many nodes are known."""
        return self._holdings.node_count

    @property
    def pods(self) -> list[PodState]:
        """The pods that are known, in no order."""
        with self.lock:
            return list(self._pods.values())

    @property
    def quota(self) -> Quota:
        """The quota in force."""
        return self._limits.quota

    @property
    def usage(self) -> Usage:
        """What the namespaces hold that the quota names."""
        return self._limits.usage

    @property
    def version(self) -> tuple[int, int]:
        """The newest version of any node, and how many nodes were forgotten."""
        return self._holdings.version, self._holdings.drops

    def changed_after(self, version: int) -> Iterator[Node]:
        """Yield the nodes that changed since, with their uses; hold the lock all the while."""
        return self._holdings.changed_after(version)

    def pod(self, uid: str) -> PodState | None:
        """Return a pod, or None when no watch has shown it yet."""
        with self.lock:
            return self._pods.get(uid)

    def node(self, name: str, *, without: str = "") -> Node | None:
        """Return a node with its uses, as if the pod with UID ``without`` held nothing."""
        return self.node_without(name, (without,) if without else ())

    def node_without(self, name: str, uids: Collection[str]) -> Node | None:
        """Return a node with its uses, as if these pods held nothing."""
        with self.lock:
            return self._holdings.node_without(name, uids)

    def base(self, name: str) -> Node | None:
        """Return a node with nothing taken of its cards."""
        return self._holdings.base(name)

    def placement(self, uid: str) -> Placement | None:
        """Return the cards that a pod holds or has reserved."""
        with self.lock:
            return self._holdings.placement(uid)

    def holders(self, name: str) -> Mapping[str, Placement]:
        """Return what each pod holds or has reserved of a node, by UID."""
        with self.lock:
            return dict(self._holdings.holders(name))

    @property
    def nominated_nodes(self) -> list[str]:
        """The nodes on which the scheduler makes room for somebody."""
        with self.lock:
            return list(self._nominated.nodes)

    def nominees_before(self, pod: PodState, name: str) -> list[PodState]:
        """Return the pods that go before this one on a node and hold no cards yet."""
        with self.lock:
            found = self._nominated.before(pod, name)
            return [each for each in found if self._holdings.placement(each.uid) is None]

    @property
    def reservations(self) -> int:
        """How many pods hold cards without being bound."""
        with self.lock:
            return len(self._reservations)

    # What is decided and read here.

    def add_pod(self, pod: PodState) -> PodState | None:
        """Learn of a pod that was read from the API server; None when it is gone since."""
        with self.lock:
            if pod.uid in self._gone:
                return None
            self._learn(pod)
            self._tell_room()
            return self._pods.get(pod.uid, pod)

    def assume(self, uid: str, placement: Placement) -> int:
        """Reserve cards for a pod at once; returns the decision's time, Unix nanoseconds."""
        with self.lock:
            pod = self._pods[uid]
            time_ns = self._reservations.assume(pod, placement)
            self._settle(pod)
            return time_ns

    def forget(self, uid: str, time_ns: int) -> None:
        """Take back the decision of that time, because it was not written."""
        with self.lock:
            if self._reservations.retract(uid, time_ns):
                self._settle_known(uid)
            self._tell_room()

    def doubt(self, uid: str, time_ns: int) -> None:
        """Keep the decision of that time: it may be written still, while the pod doesn't change."""
        with self.lock:
            self._reservations.doubt(uid, time_ns)
            self._settle_known(uid)
            self._tell_room()

    def is_doubtful(self, uid: str) -> bool:
        """Say whether an earlier write about a pod may still come about."""
        with self.lock:
            return self._reservations.is_doubtful(uid)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that the API server says is gone."""
        with self.lock:
            self._remove(uid)
            self._tell_room()

    def expire(self) -> None:
        """End the reservations whose time is over."""
        with self.lock:
            for uid in self._reservations.due():
                self._settle_known(uid)
            self._tell_room()

    def _learn(self, pod: PodState) -> None:
        known = self._pods.get(pod.uid)
        if known is not None and older(pod, known):
            return  # what we read or wrote was ahead of the watch, or of another read
        pod = told(pod, known, self._clock())
        if pod.ours or not (pod.node or pod.finished):
            self._pods[pod.uid] = pod
        else:
            self._pods.pop(pod.uid, None)
        if pod.ours or known is not None:
            self._settle(pod)

    def _remove(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        self._reservations.forget(uid)
        self._room |= self._nominated.forget(uid)
        self._holdings.give_back(uid)
        self._limits.drop((uid,))
        if pod is not None:
            self._gone[uid] = None
            if len(self._gone) > _TOMBSTONES:
                self._gone.popitem(last=False)

    def _settle_known(self, uid: str) -> None:
        if uid in self._pods:
            self._settle(self._pods[uid])

    def _settle(self, pod: PodState) -> None:
        """Count what a pod holds now."""
        placement = self._reservations.settle(pod)
        if placement is None:
            self._holdings.give_back(pod.uid)
            self._limits.drop((pod.uid,))
        elif self._holdings.take(pod.uid, placement):
            self._limits.count((pod.uid,))
        self._room |= self._nominated.learn(pod)

    def _tell_room(self) -> None:
        if self._room or self._holdings.freed:
            self._room = self._holdings.freed = False
            self._on_room()
