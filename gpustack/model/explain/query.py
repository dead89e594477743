"""One refused pod and its cluster, and the one way in which every search asks: by placing again."""

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gpustack.model.cluster import eligibility
from gpustack.model.cluster.cluster import Cluster, Pod, Tenant
from gpustack.model.equivalence import hardware
from gpustack.model.node import Node
from gpustack.model.placement import Placement, Placer, release
from gpustack.model.policies.base import Policy
from gpustack.model.quota.quota import Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Refusal
from gpustack.model.request import ANY, ContainerRequest, PodRequest


class Kind(StrEnum):
    """What would have to change. The spelling is a contract, as that of `Reason` is."""

    GATES_REMOVED = "gates-removed"
    FEWER_CORES = "fewer-cores"
    LESS_MEMORY = "less-memory"
    SMALLER_SHARE = "smaller-share"
    OTHER_TOPOLOGY = "other-topology"
    OTHER_MODEL = "other-model"
    OTHER_UUID = "other-uuid"
    OTHER_NODE = "other-node"
    NODE_IN_POOL = "node-in-pool"
    PODS_END = "pods-end"
    CARDS_REPAIRED = "cards-repaired"
    MORE_CARDS = "more-cards"
    MORE_QUOTA = "more-quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change after which the pod fits, and where it would fit then.

    Attributes:
        kind: what changes.
        text: the change as a sentence, with its figures and names.
        request: what the pod asks then; as it was where something else changes.
        container: the container whose amounts change.
        names: the models, nodes, gates, pods (`namespace/name`) or cards (`minor (uuid)`).
        count: how many cards more are needed (`MORE_CARDS`).
        quota: the quota then (`MORE_QUOTA`, and where `also` stands).
        also: how the quota must grow beside this, in words that `text` ends with; empty where the
            change is enough alone.
        smallest: False where the search stopped at its bound: a smaller change may exist.
    """

    kind: Kind
    text: str
    request: PodRequest
    placement: Placement
    container: str = ""
    names: tuple[str, ...] = ()
    count: int = 0
    quota: Quota | None = None
    also: str = ""
    smallest: bool = True


Within = Callable[..., Placer]
"""`place.within`, which lies above this module."""


class Query:
    """A refused pod, its cluster, and the rules by which it is placed."""

    def __init__(
        self, cluster: Cluster, pod: Pod, policy: Policy, placer: Placer, within: Within
    ) -> None:
        """Ask on the nodes that take the pod whatever their cards; `placer` leaves quota aside."""
        self.cluster = cluster
        self.pod = pod
        self.request = pod.request
        self.policy = policy
        self.barred = eligibility.refusals(pod.demands, cluster.nodes, cluster.hosts)
        self.usage = cluster.usage(pod.namespace) if self.limited else Usage()
        self.placer = placer
        self._within = within
        self.ask = self.within(cluster.quota)
        self.nodes = [cluster.nodes[each] for each in sorted(cluster.nodes.keys() - self.barred)]
        self.kinds = self.nodes if pod.request.uuids != ANY else _distinct(self.nodes)

    def within(self, quota: Quota, *, without: Collection[str] = ()) -> Placer:
        """Return a placer that keeps to `quota`; pods `without` (UIDs) hold nothing of it."""
        return self._within(quota, self.usage, self.pod.namespace, self.policy, without=without)

    def under(self, quota: Quota) -> "Query":
        """Return the same question in a cluster with another quota of the same namespaces."""
        found = copy.copy(self)  # nodes, and what bars them, don't depend on the quota
        found.cluster = replace(self.cluster, quota=quota)
        found.usage = found.cluster.usage(self.pod.namespace)  # claims count by a quota's names
        found.ask = found.within(quota)
        return found

    @property
    def limited(self) -> bool:
        """True when the pod's namespace has a quota."""
        return self.cluster.quota.of(self.pod.namespace) is not None

    def fits(self, node: Node, request: PodRequest) -> Placement | None:
        """Return where `request` fits on `node` within the quota; None where it doesn't."""
        answer = self.ask(node, request)
        return answer if isinstance(answer, Placement) else None

    def somewhere(self, request: PodRequest) -> Placement | None:
        """Return the answer of the first node, by name, that has room for `request`."""
        return next(filter(None, (self.fits(node, request) for node in self.kinds)), None)

    def after(self, leaving: Sequence[Tenant], name: str) -> Placement | None:
        """Return the answer of a node once these pods, of whatever node, are gone."""
        node = self.cluster.nodes[name]
        for tenant in leaving:
            if tenant.placement.node == name:
                node = release(node, tenant.placement)
        gone = {tenant.uid for tenant in leaving}
        answer = self.within(self.cluster.quota, without=gone)(node, self.request)
        return answer if isinstance(answer, Placement) else None

    def answers(self) -> dict[str, Placement | Refusal]:
        """Return every node's answer as things stand, by name."""
        found = {node.name: self.ask(node, self.request) for node in self.nodes}
        return {name: self.barred.get(name) or found[name] for name in sorted(self.cluster.nodes)}


def largest(
    nodes: Iterable[Node], low: int, high: int, ask: Callable[[Node, int], Placement | None]
) -> tuple[int, Placement] | None:
    """Return the largest figure from `low` to `high` that fits on any node, and the placement.

    What fits with one figure must fit with every smaller one. A node is asked first for more than
    the best so far, and halves only when it has that. None where not even `low` fits.
    """
    found: tuple[int, Placement] | None = None
    for node in nodes:
        fits = low if found is None else found[0] + 1
        answer = ask(node, fits) if fits <= high else None
        if answer is None:
            continue
        too_much = high + 1
        while too_much - fits > 1:
            middle = (fits + too_much) // 2
            better = ask(node, middle)
            if better is not None:
                fits, answer = middle, better
            else:
                too_much = middle
        found = fits, answer
    return found


def with_container(request: PodRequest, container: ContainerRequest) -> PodRequest:
    """Return the request with one container's amounts replaced; it is known by its place."""
    place = container.kind, container.index
    containers = (
        container if (each.kind, each.index) == place else each for each in request.containers
    )
    return replace(request, containers=tuple(containers))


def _distinct(nodes: Sequence[Node]) -> list[Node]:
    """Return the first of all nodes that must answer alike, whatever their cards' UUIDs."""
    found: dict[object, Node] = {}
    for node in nodes:
        found.setdefault((hardware(node), node.uses, node.pool), node)
    return list(found.values())
