"""The cluster as the extender knows it: what the watches said, and what was decided here.

A decision counts from the moment it is made, before its annotations are written, and is known as
*assumed* until the watch shows them. From then on the annotations are the truth, so an instance
that starts later, or beside this one, sees the same. A decision on a pod that isn't bound is a
reservation; it ends when the pod is bound elsewhere, finished or gone, when the scheduler calls
the pod unschedulable more than 30 s after the decision, or by age.
"""

import collections
import heapq
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender.holdings import Holdings
from extender.pods import PodState, read_pod
from gpustack.model.device import Node
from gpustack.model.placement import Placement
from gpustack.wire import nodes
from gpustack.wire.annotations import BadAnnotation, Keys

logger = logging.getLogger(__name__)

_GRACE_NS: Final = 30 * 10**9  # the scheduler still reports the refusal before the decision
# A decision from farther in the future than clocks differ would be a reservation without end.
_SKEW_NS: Final = 60 * 10**9
_TOMBSTONES: Final = 10_000  # pods that are gone, remembered longer than any request takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A decision: which cards, and when it was made (Unix nanoseconds)."""

    placement: Placement
    time_ns: int


class ClusterView:
    """Nodes, pods and decisions. Hold ``lock`` from a question to the decision it leads to."""

    def __init__(
        self,
        keys: Keys,
        *,
        reservation_seconds: float,
        now_ns: Callable[[], int],
        on_room: Callable[[], None],
    ) -> None:
        """Start empty.

        Args:
            keys: the domain's names.
            reservation_seconds: how long an unbound pod keeps its cards.
            now_ns: the clock, Unix nanoseconds.
            on_room: called, with the lock held, when cards may have become free.
        """
        self.lock = threading.RLock()
        self._keys = keys
        self._reservation_ns = int(reservation_seconds * 1e9)
        self._now_ns = now_ns
        self._on_room = on_room
        self._holdings = Holdings()
        self._pods: dict[str, PodState] = {}
        self._assumed: dict[str, Reserved] = {}
        self._reserved: dict[str, int] = {}  # unbound pods with a decision, and when it ends
        self._ends: list[tuple[int, str]] = []  # heap of (when, uid); some entries are outdated
        self._gone: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._last_ns = 0

    # What the watches say.

    def sync_nodes(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Replace all nodes."""
        with self.lock:
            listed = {item["metadata"]["name"] for item in items}
            for name in self._holdings.node_names - listed:
                self._holdings.drop_node(name)
            for item in items:
                self._holdings.set_node(self._read_node(item))
            self._tell_room()

    def node_event(self, kind: str, value: Mapping[str, Any]) -> None:
        """Take one change of a node."""
        with self.lock:
            if kind == "DELETED":
                self._holdings.drop_node(value["metadata"]["name"])
            else:
                self._holdings.set_node(self._read_node(value))
            self._tell_room()

    def sync_pods(self, items: Sequence[Mapping[str, Any]], version: int) -> None:
        """Replace all pods by a list at ``version``; pods that we read later than it stay."""
        with self.lock:
            listed = {item["metadata"]["uid"] for item in items}
            for pod in list(self._pods.values()):
                if pod.uid not in listed and pod.version <= version:
                    self._remove(pod.uid)
            for item in items:
                self._learn(item)
            self._tell_room()

    def pod_event(self, kind: str, value: Mapping[str, Any]) -> None:
        """Take one change of a pod."""
        with self.lock:
            if kind == "DELETED":
                self._remove(value["metadata"]["uid"])
            else:
                self._learn(value)
            self._tell_room()

    # Questions; hold the lock as long as the answer has to be true.

    @property
    def node_names(self) -> frozenset[str]:
        """The nodes that are known."""
        with self.lock:
            return self._holdings.node_names

    def pod(self, uid: str) -> PodState | None:
        """Return a pod, or None when no watch has shown it yet."""
        with self.lock:
            return self._pods.get(uid)

    def node(self, name: str, *, without: str = "") -> Node | None:
        """Return a node with its uses, as if the pod with UID ``without`` held nothing."""
        with self.lock:
            return self._holdings.node(name, without=without)

    def placement(self, uid: str) -> Placement | None:
        """Return the cards that a pod holds or has reserved."""
        with self.lock:
            return self._holdings.placement(uid)

    @property
    def reservations(self) -> int:
        """How many pods hold cards without being bound."""
        with self.lock:
            return len(self._reserved)

    # What is decided and read here.

    def add_pod(self, value: Mapping[str, Any]) -> PodState | None:
        """Learn of a pod that was read from the API server; None when it is gone since."""
        with self.lock:
            if value["metadata"]["uid"] in self._gone:
                return None
            self._learn(value)
            return self._pods[value["metadata"]["uid"]]

    def assume(self, uid: str, placement: Placement) -> int:
        """Reserve cards for a pod at once; returns the decision's time, Unix nanoseconds."""
        with self.lock:
            pod = self._pods[uid]
            now_ns = self._now_ns()
            written_ns = pod.decision.time_ns if pod.decision is not None else 0
            # Later than what stands on the pod, also when the clock was set back: the later of
            # two decisions is the one in force.
            after = written_ns + 1 if written_ns <= now_ns + _SKEW_NS else 0
            self._last_ns = max(now_ns, self._last_ns + 1, after)
            self._assumed[uid] = Reserved(placement=placement, time_ns=self._last_ns)
            self._settle(pod)
            return self._last_ns

    def forget(self, uid: str, time_ns: int) -> None:
        """Take back the decision of that time, because it was not written."""
        with self.lock:
            assumed = self._assumed.get(uid)
            if assumed is None or assumed.time_ns != time_ns:
                return
            del self._assumed[uid]
            if uid in self._pods:
                self._settle(self._pods[uid])
            self._tell_room()

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that the API server says is gone."""
        with self.lock:
            self._remove(uid)
            self._tell_room()

    def expire(self) -> None:
        """End the reservations whose time is over."""
        with self.lock:
            while self._ends and self._ends[0][0] <= self._now_ns():
                uid = heapq.heappop(self._ends)[1]
                if uid in self._pods:
                    self._settle(self._pods[uid])
            self._tell_room()

    def _read_node(self, value: Mapping[str, Any]) -> Node:
        try:
            return nodes.decode_node(self._keys, value)
        except BadAnnotation as error:
            name = value["metadata"]["name"]
            logger.warning("node is taken for one without cards node=%s error=%s", name, error)
            return Node(name=name)

    def _learn(self, value: Mapping[str, Any]) -> None:
        uid = value["metadata"]["uid"]
        known = self._pods.get(uid)
        pod = read_pod(self._keys, value, known, self._now_ns())
        if known is not None and pod.version < known.version:
            return  # a read of ours was ahead of the watch
        self._pods[uid] = pod
        self._settle(pod)

    def _remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._assumed.pop(uid, None)
        self._reserved.pop(uid, None)
        self._holdings.give_back(uid)
        self._gone[uid] = None
        if len(self._gone) > _TOMBSTONES:
            self._gone.popitem(last=False)

    def _settle(self, pod: PodState) -> None:
        """Count what a pod holds now."""
        now_ns = self._now_ns()
        decision = self._in_force(pod, now_ns)
        if decision is None:
            self._assumed.pop(pod.uid, None)
            self._holdings.give_back(pod.uid)
        else:
            self._holdings.take(pod.uid, decision.placement)
        if decision is None or pod.node:
            self._reserved.pop(pod.uid, None)
            return
        end = decision.time_ns + self._reservation_ns
        if self._reserved.get(pod.uid) != end:
            self._reserved[pod.uid] = end
            heapq.heappush(self._ends, (end, pod.uid))

    def _in_force(self, pod: PodState, now_ns: int) -> Reserved | None:
        """Return the decision that counts for a pod, by the rules in this module's first words."""
        if pod.request is None or pod.finished:
            return None
        written = None
        if pod.decision is not None:
            written = Reserved(placement=pod.decision.placement, time_ns=pod.decision.time_ns)
        assumed = self._assumed.get(pod.uid)
        if not pod.node and written is not None and written.time_ns > now_ns + _SKEW_NS:
            written = None
        if assumed is not None:
            confirmed = written is not None and written.time_ns >= assumed.time_ns
            if confirmed or pod.node not in {"", assumed.placement.node}:
                del self._assumed[pod.uid]
                assumed = None
        decision = assumed or written
        if decision is None or pod.node:
            return decision
        return decision if self._lives(pod, decision, now_ns) else None

    def _lives(self, pod: PodState, decision: Reserved, now_ns: int) -> bool:
        return (
            not pod.gated
            and now_ns < decision.time_ns + self._reservation_ns
            and pod.unschedulable_ns <= decision.time_ns + _GRACE_NS
        )

    def _tell_room(self) -> None:
        if self._holdings.freed:
            self._holdings.freed = False
            self._on_room()
