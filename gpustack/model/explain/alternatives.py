"""Why a running pod is where it is: the other places it could have, and by how much they are worse.

The pod is taken away, and asked for again without one of its cards after another, and on every
other node: that gives the best alternative to each card and to the node. Each is compared by the
objective that decides (`policies`, `card_set_search`), criterion by criterion, until one tells the
two apart. The cluster is looked at as it stands now: an alternative may be better by now.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from gpustack.model.cluster import eligibility
from gpustack.model.cluster.cluster import Cluster, Tenant
from gpustack.model.cluster.eligibility import NO_DEMANDS, Demands
from gpustack.model.frozen import freeze
from gpustack.model.node import Node
from gpustack.model.place import within
from gpustack.model.placement import Placement, Placer, apply, release
from gpustack.model.policies import EXACT, Policy
from gpustack.model.refusal import Refusal
from gpustack.model.request import PodRequest, Strategy
from gpustack.model.search.exclusion import avoiding
from gpustack.model.topology.link_level import Level
from gpustack.model.units import size_text
from gpustack.model.verification import verify


class Verdict(StrEnum):
    """How an alternative compares with what the pod has."""

    WORSE = "worse"
    EQUAL = "equal"
    BETTER = "better"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another place for a pod.

    Attributes:
        criterion: what tells the two apart, empty where nothing does.
        chosen: the criterion's value where the pod is.
        other: its value there.
    """

    placement: Placement
    verdict: Verdict
    criterion: str = ""
    chosen: str = ""
    other: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Why a pod is where it is.

    Attributes:
        placement: where it is.
        alternatives: other cards of its node first, then other nodes by name.
        refusals: the nodes that have no room for it, by name.
        trouble: why the decision could not be carried out today; None where it could.
    """

    placement: Placement
    alternatives: tuple[Alternative, ...]
    refusals: Mapping[str, Refusal]
    trouble: Refusal | None = None

    def __post_init__(self) -> None:
        freeze(self, "refusals")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """One criterion's value: a smaller `order` is better."""

    criterion: str
    order: tuple[int, ...]
    shown: str


def why(
    cluster: Cluster,
    tenant: Tenant,
    request: PodRequest,
    demands: Demands = NO_DEMANDS,
    policy: Policy = EXACT,
    *,
    go_on: Callable[[], None] = lambda: None,
) -> Standing:
    """Compare a running pod's place with its alternatives, which the policy names.

    Quota counts as if the pod asked anew. ``go_on`` is asked before each place that is tried, one
    a node; may raise.

    Raises:
        KeyError: the tenant's node is not in the cluster.
    """
    usage = cluster.usage(tenant.namespace)
    scale = _Scale(request, policy)
    placer = within(cluster.quota, usage, tenant.namespace, policy, without=[tenant.uid])

    def ask(node: Node, wanted: PodRequest) -> Placement | Refusal:
        go_on()
        return placer(node, wanted)

    held = tenant.placement
    before = release(cluster.nodes[held.node], held)
    chosen = scale.on_cards(before, held)
    alternatives = [
        _compare(other, chosen, scale.on_cards(before, other))
        for other in _other_cards(before, request, held, ask)
    ]
    of_node = scale.on_node(before, held)
    elsewhere = _elsewhere(cluster, held.node, request, demands, ask)
    alternatives.extend(
        _compare(answer, of_node, scale.on_node(cluster.nodes[name], answer))
        for name, answer in elsewhere.items()
        if isinstance(answer, Placement)
    )
    refusals = {name: each for name, each in elsewhere.items() if isinstance(each, Refusal)}
    return Standing(
        placement=held,
        alternatives=tuple(alternatives),
        refusals=refusals,
        trouble=verify(before, held, request),
    )


def _elsewhere(
    cluster: Cluster, here: str, request: PodRequest, demands: Demands, ask: Placer
) -> Mapping[str, Placement | Refusal]:
    """Return every other node's answer, by name."""
    names = sorted(cluster.nodes.keys() - {here})
    barred = eligibility.refusals(demands, names, cluster.hosts)
    return {name: barred.get(name) or ask(cluster.nodes[name], request) for name in names}


def _other_cards(
    node: Node, request: PodRequest, held: Placement, ask: Placer
) -> Iterator[Placement]:
    """Yield the best placement without each of the pod's cards; none twice."""
    seen = {_minors(held)}
    for minor in sorted({minor for each in held.containers for minor in each.minors}):
        answer = ask(*avoiding(node, request, node.indexes_of([minor])))
        if isinstance(answer, Placement) and _minors(answer) not in seen:
            seen.add(_minors(answer))
            yield answer


def _minors(placement: Placement) -> tuple[tuple[int, ...], ...]:
    return tuple(each.minors for each in placement.containers)


def _compare(placement: Placement, chosen: list[_Measure], other: list[_Measure]) -> Alternative:
    for ours, theirs in zip(chosen, other, strict=True):
        if ours.order != theirs.order:
            return Alternative(
                placement=placement,
                verdict=Verdict.WORSE if ours.order < theirs.order else Verdict.BETTER,
                criterion=ours.criterion,
                chosen=ours.shown,
                other=theirs.shown,
            )
    return Alternative(placement=placement, verdict=Verdict.EQUAL)


class _Scale:
    """By what a policy tells two places for one pod apart."""

    def __init__(self, request: PodRequest, policy: Policy) -> None:
        read = policy.read(request)
        self._policy = policy
        self._nodes = read.node_strategy
        self._spread_cards = read.card_strategy is Strategy.SPREAD

    def on_cards(self, node: Node, placement: Placement) -> list[_Measure]:
        """Measure one choice of cards of a node, by the order of the objective."""
        links = [
            node.link(a, b)
            for each in placement.containers
            for a, b in combinations(node.indexes_of(each.minors), 2)
        ]
        worst = max((link.level for link in links), default=Level.SELF)
        cost = sum(link.cost for link in links)
        measures = [
            *self._growth(node, placement),
            _Measure(criterion="worst pair", order=(worst,), shown=worst.name),
            _Measure(criterion="sum of pair costs", order=(cost,), shown=str(cost)),
        ]
        spread = self._spread_cards
        if any(not each.is_share for each in placement.containers):
            measures.extend(_left_joined(node, placement, spread=spread))
        shares = [index for each in placement.containers if each.is_share
                  for index in node.indexes_of(each.minors)]  # fmt: skip
        after = apply(node, placement)
        cores = sum(map(after.free_cores, shares))
        memory = sum(map(after.free_memory_units, shares))
        minors = tuple(minor for each in placement.containers for minor in each.minors)
        shown = ",".join(map(str, minors))
        return [
            *measures,
            _amount("free cores left on its cards", cores, spread=spread),
            _memory("free memory left on its cards", memory, spread=spread),
            _Measure(criterion="lowest minors", order=minors, shown=shown),
        ]

    def on_node(self, node: Node, placement: Placement) -> list[_Measure]:
        """Measure a node before the pod comes: binpack takes the fullest, spread the emptiest."""
        cores, memory = node.free_totals
        spread = self._nodes is Strategy.SPREAD
        name = tuple(map(ord, node.name))
        return [
            *self._growth(node, placement),
            _amount("free cores of the node", cores, spread=spread),
            _memory("free memory of the node", memory, spread=spread),
            _Measure(criterion="name of the node", order=name, shown=node.name),
        ]

    def _growth(self, node: Node, placement: Placement) -> Iterator[_Measure]:
        if self._policy.weighs_placements:
            grown = self._policy.increase(node, placement)
            yield _amount("growth of fragmentation", grown, spread=False)


def _left_joined(node: Node, placement: Placement, *, spread: bool) -> Iterator[_Measure]:
    """Count the pairs of wholly free cards that stay, nearest level first: more is better."""
    after = apply(node, placement)
    free = [index for index in node.healthy if after.uses[index].idle]
    levels = [node.link(a, b).level for a, b in combinations(free, 2)]
    for level in list(Level)[1:]:
        count = sum(each <= level for each in levels)
        yield _amount(f"free pairs left joined by {level.name} or nearer", count, spread=not spread)


def _amount(criterion: str, value: int, *, spread: bool) -> _Measure:
    return _Measure(criterion=criterion, order=(-value if spread else value,), shown=str(value))


def _memory(criterion: str, units: int, *, spread: bool) -> _Measure:
    return replace(_amount(criterion, units, spread=spread), shown=size_text(units))
