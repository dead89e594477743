"""One refused pod and its cluster, and the one way in which every search asks: by placing again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from gpustack.model.cluster import eligibility
from gpustack.model.cluster.cluster import Cluster, Tenant
from gpustack.model.cluster.eligibility import NO_DEMANDS, Demands
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement, release
from gpustack.model.policies import Policy
from gpustack.model.quota.quota import Quota, within
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Refusal
from gpustack.model.request import ANY, ContainerRequest, PodRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A pod that waits: whose it is, what it asks, and what it says about nodes."""

    namespace: str
    name: str
    request: PodRequest
    demands: Demands = NO_DEMANDS


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
        placement: what comes out, found by placing again.
        container: the container whose amounts change; empty for the others.
        names: the models, nodes, gates, pods (`namespace/name`) or cards (`minor (uuid)`) that it
            is about.
        count: how many cards more are needed (`MORE_CARDS`); 0 for the others.
        quota: the quota then (`MORE_QUOTA`); None for the others.
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
    smallest: bool = True


class Query:
    """A refused pod, its cluster, and the rules by which it is placed."""

    def __init__(self, cluster: Cluster, pod: Pending, policy: Policy) -> None:
        """Ask for `pod` on `cluster`, on the nodes that take it whatever their cards."""
        self.cluster = cluster
        self.pod = pod
        self.request = pod.request
        self.policy = policy
        self.barred = eligibility.refusals(pod.demands, cluster.nodes, cluster.hosts)
        self.usage = cluster.usage(pod.namespace) if self.limited else Usage()
        self.ask = within(cluster.quota, self.usage, pod.namespace, policy)
        open_to_it = cluster.nodes.keys() - self.barred.keys()
        self.nodes = [cluster.nodes[name] for name in sorted(open_to_it)]
        self.kinds = self.nodes if pod.request.uuids != ANY else list(_distinct(self.nodes))

    def placer(self, node: Node, request: PodRequest) -> Placement | Refusal:
        """Answer for one node under the policy, quota left aside."""
        return place(node, request, self.policy)

    @property
    def limited(self) -> bool:
        """True when the pod's namespace has a quota."""
        return self.cluster.quota.of(self.pod.namespace) is not None

    def owns(self, tenant: Tenant) -> bool:
        """Say whether what a tenant holds counts in the quota that limits the pod."""
        return self.limited and tenant.namespace == self.pod.namespace

    def somewhere(self, request: PodRequest) -> Placement | None:
        """Return the answer of the first node, by name, that has room for `request`."""
        for node in self.kinds:
            answer = self.ask(node, request)
            if isinstance(answer, Placement):
                return answer
        return None

    def after(self, leaving: Sequence[Tenant], name: str) -> Placement | None:
        """Return the answer of a node once these pods, of whatever node, are gone."""
        node = self.cluster.nodes[name]
        for tenant in leaving:
            if tenant.placement.node == name:
                node = release(node, tenant.placement)
        gone = {tenant.uid for tenant in leaving}
        namespace = self.pod.namespace
        ask = within(self.cluster.quota, self.usage, namespace, self.policy, without=gone)
        answer = ask(node, self.request)
        return answer if isinstance(answer, Placement) else None

    def answers(self) -> dict[str, Placement | Refusal]:
        """Return every node's answer as things stand, by name."""
        found = {node.name: self.ask(node, self.request) for node in self.nodes}
        return {name: self.barred.get(name) or found[name] for name in sorted(self.cluster.nodes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The largest figure that fits, and the answer."""

    figure: int
    placement: Placement


def largest(
    nodes: Iterable[Node],
    low: int,
    high: int,
    ask: Callable[[Node, int], Placement | Refusal],
) -> SearchResult | None:
    """Return the largest figure from `low` to `high` that fits on any node; None: not even `low`.

    What fits with one figure must fit with every smaller one. A node is asked first for more than
    the best so far, and halves only when it has that.
    """
    found: SearchResult | None = None
    for node in nodes:
        fits = low if found is None else found.figure + 1
        answer = ask(node, fits) if fits <= high else None
        if not isinstance(answer, Placement):
            continue
        too_much = high + 1
        while too_much - fits > 1:
            middle = (fits + too_much) // 2
            better = ask(node, middle)
            if isinstance(better, Placement):
                fits, answer = middle, better
            else:
                too_much = middle
        found = SearchResult(figure=fits, placement=answer)
    return found


def with_container(request: PodRequest, container: ContainerRequest) -> PodRequest:
    """Return the request with one container's amounts replaced; it is known by its place."""
    place = container.kind, container.index
    containers = (
        container if (each.kind, each.index) == place else each for each in request.containers
    )
    return replace(request, containers=tuple(containers))


def _distinct(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield one of all nodes that must answer alike, whatever their cards' numbers and UUIDs."""
    seen: set[object] = set()
    for node in nodes:
        cards = tuple(
            (card.memory_units, card.model, card.numa, card.healthy) for card in node.cards
        )
        alike = cards, node.links, node.paths, node.uses, node.pool
        if alike not in seen:
            seen.add(alike)
            yield node
