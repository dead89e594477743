"""The reads of the cluster cache. Hold its lock as long as an answer has to be true."""

import threading
from collections.abc import Callable, Mapping, Sequence

from extender.cache.allocations import Allocations
from extender.cache.nominated import NamesLeft, NodeInTurn, NominatedPods
from extender.cache.pods import PodState
from extender.cache.reservations import Reservations
from extender.cache.search_time import HardwareChanges
from extender.quota.quota_claims import QuotaClaims
from extender.quota.quota_usage import QuotaUsage
from gpustack.model.cluster.eligibility import OPEN, Host
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.quota.claim import Claim
from gpustack.model.quota.quota import Quota
from gpustack.model.quota.usage import Usage


class CacheReads:
    """The state of the cache, and the questions about it.

    Attributes:
        lock: everything here changes under it.
        allocations: the nodes, and which pod holds which cards of them; hold the lock.
        rooms: how often cards may have become free.
        hardware_changes: the nodes that have changed what they say of their cards.
    """

    def __init__(self, reservations: Reservations, clock: Callable[[], float]) -> None:
        """Start empty; ``clock`` is in monotonic seconds."""
        self.lock = threading.RLock()
        self._clock = clock
        self.rooms = 0
        self.allocations = Allocations()
        self.hardware_changes = HardwareChanges(clock)
        self._nominated = NominatedPods()
        self._reservations = reservations
        self._pods: dict[str, PodState] = {}
        self._hosts: dict[str, Host] = {}
        self._violations: dict[str, str] = {}  # of the nodes that say any
        self._quota_usage = QuotaUsage(self._pods, self.allocations, QuotaClaims(clock))

    @property
    def node_names(self) -> frozenset[str]:
        """The nodes that are known."""
        with self.lock:
            return self.allocations.node_names

    @property
    def pods(self) -> list[PodState]:
        """The pods that are known, in no order."""
        with self.lock:
            return list(self._pods.values())

    @property
    def waiting(self) -> list[PodState]:
        """The pods that ask for a GPU and have none, not even reserved, in no order.

        The lock is held for one pod at a time: there may be any number.
        """
        return [pod for pod in self.pods if pod.waits and self.placement(pod.uid) is None]

    @property
    def card_nodes(self) -> list[Node]:
        """The nodes that have cards, with their uses, by name; locked as for `waiting`."""
        nodes = map(self.node, sorted(self.node_names))
        return [node for node in nodes if node is not None and node.cards]

    @property
    def quota(self) -> Quota:
        """The quota in force."""
        return self._quota_usage.quota

    @property
    def usage(self) -> Usage:
        """What the namespaces hold that the quota names; hold the lock, for it changes."""
        return self._quota_usage.usage

    def usage_of(self, namespace: str) -> Usage:
        """Return what one namespace holds at this moment."""
        with self.lock:
            return self._quota_usage.usage.of(namespace)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What pods will take of their quota that were let pass, and aren't bound yet."""
        with self.lock:
            return tuple(self._quota_usage.claims.all())

    def pod(self, uid: str) -> PodState | None:
        """Return a pod, or None when no watch has shown it yet."""
        with self.lock:
            return self._pods.get(uid)

    def node(self, name: str, *, without: str = "") -> Node | None:
        """Return a node with its uses, as if the pod with UID ``without`` held nothing."""
        with self.lock:
            return self.allocations.node_without(name, (without,) if without else ())

    def host(self, name: str) -> Host:
        """Return what a node says to pods beside its cards: labels, taints, cordons."""
        with self.lock:
            return self._hosts.get(name, OPEN)

    def violations(self, name: str) -> str:
        """Return what a node's agent says of its containers: not read, for no decision needs it."""
        with self.lock:
            return self._violations.get(name, "")

    def base(self, name: str) -> Node | None:
        """Return a node without what pods take of its cards."""
        return self.allocations.base(name)

    def placement(self, uid: str) -> Placement | None:
        """Return the cards that a pod holds or has reserved."""
        with self.lock:
            return self.allocations.placement(uid)

    def holders(self, name: str) -> Mapping[str, Placement]:
        """Return what each pod holds or has reserved of a node, by UID."""
        with self.lock:
            return dict(self.allocations.holders(name))

    @property
    def nominated_nodes(self) -> list[str]:
        """The nodes on which the scheduler makes room for a pod."""
        with self.lock:
            return list(self._nominated.nodes)

    def nominees_before(self, pod: PodState, name: str) -> list[PodState]:
        """Return the pods that go before this one on a node and hold no cards yet."""
        with self.lock:
            found = self._nominated.before(pod, name)
            return [each for each in found if self.allocations.placement(each.uid) is None]

    def leaving(self, name: str) -> list[str]:
        """Return the pods that hold cards of a node and are about to end.

        One that takes long to end is none of them: its cards may never be free.
        """
        with self.lock:
            held = ((uid, self._pods.get(uid)) for uid in self.allocations.holders(name))
            ending = ((uid, pod) for uid, pod in held if pod is not None and pod.deletion)
            return [uid for uid, pod in ending if not self.is_slow(pod)]

    def is_slow(self, pod: PodState) -> bool:
        """Say whether nobody should wait for a pod's cards now (`PodState.is_slow`)."""
        return pod.is_slow(self._clock())

    def node_in_turn(self, pod: PodState, name: str) -> NodeInTurn | None:
        """Return a node as a pod finds it, before others' turns; None where it isn't known."""
        with self.lock:
            node = self.node(name, without=pod.uid)
            if node is None:
                return None
            holders = self.allocations.holders(name)
            first = self.nominees_before(pod, name)
            leaving = self.leaving(name) if first else ()
            return NodeInTurn(
                node=node,
                first=first,
                leaving={uid: holders[uid] for uid in leaving if uid != pod.uid},
                version=self.allocations.versions[name],
                own=pod.uid if pod.uid in holders else "",
                names=self._names_left(node, first),
            )

    def _names_left(self, node: Node, pods: Sequence[PodState]) -> tuple[NamesLeft, ...]:
        """Return what is left of each pod's quota, where it decides between cards of the node."""
        several = bool(pods) and len({card.model for card in node.cards}) > 1
        return tuple(self._quota_usage.names_left(each) if several else () for each in pods)

    def is_doubtful(self, uid: str) -> bool:
        """Say whether an earlier write about a pod may still come about."""
        with self.lock:
            return self._reservations.is_doubtful(uid)

    @property
    def reservations(self) -> int:
        """How many pods hold cards without being bound."""
        with self.lock:
            return len(self._reservations)
