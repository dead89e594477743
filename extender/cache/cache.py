"""The cluster as the extender knows it: what the watches said, and what was decided here.

Everything in it can be rebuilt from the API server, so an instance that starts later, or beside
this one, sees the same. Pods that ask for no GPU are kept only while they wait for a node, so that
a question about one needs no look at the API server.

Every decision waits for the lock, so it is held for moments only: what concerns thousands of nodes
or pods takes it again and again, for a portion of them each time. Between two portions readers see
a part of what a list says, as they would if each change came by itself.
"""

import collections
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from extender.cache.cache_reads import CacheReads
from extender.cache.decode import NodeState
from extender.cache.pods import PodState, older, rewritten, told
from extender.cache.portions import PORTION, portions
from extender.cache.reservations import Reservations
from gpustack.model.placement import Placement
from gpustack.model.quota.claim import NO_CHOICES, Choice
from gpustack.model.quota.quota import Quota

_TOMBSTONES: Final = 10_000  # pods that are gone, remembered longer than any request takes


class ClusterCache(CacheReads):
    """Nodes, pods and decisions. Hold ``lock`` while a decision is made, and never for a search.

    Attributes:
        on_room: called, with the lock held, when cards may have become free.
    """

    def __init__(
        self,
        *,
        reservation_seconds: float,
        now_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty; an unbound pod keeps its cards so long, by the monotonic ``clock``."""
        reservations = Reservations(seconds=reservation_seconds, now_ns=now_ns, clock=clock)
        super().__init__(reservations, clock)
        self.on_room: Callable[[], None] = lambda: None
        self._node_versions: dict[str, int] = {}
        # The `resourceVersion` that the watches are at: what they haven't shown was gone by then.
        self._pods_shown = self._nodes_shown = 0
        # What we have read since the list that is under way began: the list may be older.
        self._pods_read: set[str] | None = None
        self._nodes_read: set[str] | None = None
        self._gone: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._room = False

    # What the watches say.

    def begin_nodes(self) -> None:
        """Learn that a list of the nodes is asked for now; nothing that is known is newer."""
        with self.lock:
            self._nodes_read = set()

    def sync_nodes(self, nodes: Sequence[NodeState], version: int) -> None:
        """Replace all nodes by a list at ``version``; those that we read since it began may stay.

        The list is right about the others, also where it has older news than what is known: then
        the API server's store was restored from a backup.
        """
        with self.lock:
            read = set() if self._nodes_read is None else self._nodes_read
        gone = self.node_names - {each.node.name for each in nodes}
        for names in portions(gone):
            with self.lock:
                for name in names:
                    if name not in read or self._node_versions.get(name, 0) <= version:
                        self.drop_node(name)
        for some in portions(nodes):
            with self.lock:
                for each in some:
                    self._learn_node(each, listed=each.node.name not in read)
        with self.lock:
            self._nodes_read, self._nodes_shown = None, version

    def set_node(self, state: NodeState) -> None:
        """Learn of a node that was read; older news than what is known is dropped."""
        with self.lock:
            name = state.node.name
            if self._nodes_read is not None:
                self._nodes_read.add(name)
            if name in self._node_versions or state.version > self._nodes_shown:
                self._learn_node(state)

    def node_event(self, kind: str, state: NodeState) -> None:
        """Take one change of a node."""
        with self.lock:
            self._nodes_shown = state.version
            if kind == "DELETED":
                self.drop_node(state.node.name)
            else:
                self._learn_node(state)

    def _learn_node(self, state: NodeState, *, listed: bool = False) -> None:
        name = state.node.name
        if state.version < self._node_versions.get(name, 0) and not listed:
            return
        self._node_versions[name] = state.version
        self._hosts[name] = state.host
        if state.violations:
            self._violations[name] = state.violations
        else:
            self._violations.pop(name, None)
        if self.allocations.set_node(state.node):
            self.hardware_changes.learn(name)
            self._quota_usage.count(self.allocations.holders(name))
        self._tell_room()

    def drop_node(self, name: str) -> None:
        """Forget a node; its pods may run on, and count in their quota until they are gone."""
        with self.lock:
            self.allocations.drop_node(name)
            self.hardware_changes.forget(name)
            for known in (self._node_versions, self._hosts, self._violations):
                known.pop(name, None)
            self._quota_usage.count(self.allocations.holders(name))

    def begin_pods(self) -> None:
        """Learn that a list of the pods is asked for now; nothing that is known is newer."""
        with self.lock:
            self._pods_read = set()

    def sync_pods(self, pods: Sequence[PodState], version: int) -> None:
        """Replace all pods by a list at ``version``, as `sync_nodes` does.

        Pods that take cards come before pods that give some back: in between too much counts as
        taken, and never too little.
        """
        with self.lock:
            read = set() if self._pods_read is None else self._pods_read
        for some in portions(sorted(pods, key=lambda pod: pod.finished)):
            with self.lock:
                for pod in some:
                    self._learn(pod, listed=pod.uid not in read)
        listed = {pod.uid for pod in pods}
        for uids in portions([pod.uid for pod in self.pods if pod.uid not in listed]):
            with self.lock:
                for uid in uids:
                    known = self._pods.get(uid)
                    if known is not None and (uid not in read or known.version <= version):
                        self._remove(uid)
        with self.lock:
            self._pods_read, self._pods_shown = None, version
            self._tell_room()

    def learn_pods(self, pods: Iterable[PodState]) -> None:
        """Take what a read of ours says of some pods, those that take cards first; others stay."""
        for some in portions(sorted(pods, key=lambda pod: pod.finished)):
            with self.lock:
                for pod in some:
                    self.add_pod(pod)

    def pod_event(self, kind: str, pod: PodState) -> None:
        """Take one change of a pod."""
        with self.lock:
            self._pods_shown = pod.version
            if kind == "DELETED":
                self._remove(pod.uid, named_again=False)
            else:
                self._learn(pod)
            self._tell_room()

    def set_quota(self, quota: Quota) -> None:
        """Let another quota hold from now on. One thread at a time."""
        with self.lock:
            uids = self._quota_usage.begin(quota)
        if uids is None:
            return
        for some in portions(uids):
            with self.lock:
                self._quota_usage.count(some)
        with self.lock:
            self._quota_usage.replace()
            self._room = True  # cheaper to ask than to compare
            self._tell_room()

    # What is decided and read here.

    def add_pod(self, pod: PodState) -> PodState | None:
        """Learn of a pod that was read from the API server; None when it is gone since."""
        with self.lock:
            self._note_read(pod.uid)
            if pod.uid in self._gone or self._is_outlived(pod):
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

    def claim(self, pod: PodState, choices: frozenset[Choice] = NO_CHOICES) -> bool:
        """Count one of these in a pod's quota until it is bound (`QuotaUsage.claim`)."""
        with self.lock:
            passes = self._quota_usage.claim(pod, choices)
            self._tell_room()
            return passes

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

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that the API server says is gone."""
        with self.lock:
            self._note_read(uid)
            self._remove(uid)
            self._tell_room()

    def expire(self) -> None:
        """End reservations and claims whose time is over; of very many some stand a bit longer."""
        with self.lock:
            for uid in self._reservations.due(PORTION):
                self._settle_known(uid)
            self._quota_usage.expire(PORTION)
            self._tell_room()

    def _note_read(self, uid: str) -> None:
        if self._pods_read is not None:
            self._pods_read.add(uid)

    def _is_outlived(self, pod: PodState) -> bool:
        """Say whether the watch has come beyond a pod that was read, and hasn't shown it."""
        kept = pod.ours or not (pod.node or pod.finished)
        return kept and pod.uid not in self._pods and pod.version <= self._pods_shown

    def _learn(self, pod: PodState, *, listed: bool = False) -> None:
        known = self._pods.get(pod.uid)
        if known is not None and older(pod, known):
            if not listed:
                return  # what we read or wrote was ahead of the watch, or of another read
            self._reservations.forget(pod.uid)  # of a history that the API server has lost
        if listed:
            self._gone.pop(pod.uid, None)
        self._quota_usage.claims.see(pod)
        if known is not None and rewritten(pod, known):
            self.hardware_changes.learn(pod.node)
        pod = told(pod, known, self._clock())
        if pod.ours or not (pod.node or pod.finished):
            self._pods[pod.uid] = pod
        else:
            self._pods.pop(pod.uid, None)
        if pod.ours or known is not None:
            self._settle(pod)

    def _remove(self, uid: str, *, named_again: bool = True) -> None:
        pod = self._pods.pop(uid, None)
        self._reservations.forget(uid)
        self._room |= self._nominated.forget(uid)
        self.allocations.give_back(uid)
        self._quota_usage.leave(uid, named_again=named_again)
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
            self.allocations.give_back(pod.uid)
        if placement is None or self.allocations.take(pod.uid, placement):
            self._quota_usage.settle(pod)
        self._room |= self._nominated.learn(pod)

    def _tell_room(self) -> None:
        if self._room or self.allocations.freed or self._quota_usage.freed:
            self._room = self.allocations.freed = self._quota_usage.freed = False
            self.rooms += 1
            self.on_room()
