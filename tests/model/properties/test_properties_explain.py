"""The smallest change that an explanation names, compared with every smaller one.

One node and no quota, so that `reference` can answer instead of the model.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from hypothesis import event, given
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Cluster, Pod, Tenant, settle
from gpustack.model.explain.explanation import explain
from gpustack.model.explain.query import Change, Kind
from gpustack.model.node import Card, Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.request import ANY, ContainerRequest, PodRequest, Topology
from gpustack.model.use import Use
from tests import profiles
from tests.model.clusters import small_pod
from tests.model.machines import dice, in_use
from tests.model.properties import reference
from tests.model.properties.cases import Case, cases, pod_of

SMALL = cases(most=4, containers=2)


def changed(change: Callable[[Case, random.Random], Case]) -> st.SearchStrategy[Case]:
    """Small cases with one part spoilt, so that most pods are refused for that part."""
    return st.builds(change, SMALL, dice)


def crowded(case: Case, rolled: random.Random) -> Case:
    return replace(case, node=in_use(rolled, case.node, most=0.8))


def short(case: Case, rolled: random.Random) -> Case:
    """Leave every card few cores and little memory."""
    uses = tuple(
        Use(cores=rolled.randint(50, 99), memory_units=rolled.randint(4, card.memory_units))
        for card in case.node.cards
    )
    return replace(case, node=case.node.with_uses(uses))


def picky(case: Case, rolled: random.Random) -> Case:
    return replace(case, request=pod_of(rolled, case.node, case.request.containers, picky=0.5))


def sick(case: Case, rolled: random.Random) -> Case:
    cards = tuple(replace(card, healthy=rolled.random() < 0.3) for card in case.node.cards)
    return replace(case, node=replace(case.node, cards=cards))


DEMANDS = (Topology.NVLINK, Topology.SINGLE_SWITCH, Topology.SINGLE_NUMA, Topology.BEST_EFFORT)


def told(cluster: Cluster, request: PodRequest) -> dict[Kind, Change]:
    """The changes that an explanation names; each one's placement obeys the rules."""
    found = explain(cluster, Pod(namespace="team", name="p", request=request))
    assert found.fits == any(
        reference.fits_somehow(node, request) for node in cluster.nodes.values()
    )
    assert not (found.fits and found.changes)
    kinds = [change.kind for change in found.changes]
    assert len(kinds) == len(set(kinds))
    event("fits" if found.fits else f"changes: {len(kinds)}")
    for kind in kinds:
        event(kind)
    return {change.kind: change for change in found.changes}


def with_one(request: PodRequest, old: ContainerRequest, new: ContainerRequest) -> PodRequest:
    containers = tuple(new if each is old else each for each in request.containers)
    return replace(request, containers=containers)


def fewer_cores(asked: ContainerRequest) -> Iterator[ContainerRequest]:
    """Every legal lower figure, whole cards before shares, the largest first."""
    for cores in range(asked.cores - 100, 0, -100):
        yield replace(asked, cores=cores)
    if asked.memory_units:
        for cores in range(min(99, asked.cores - 1), 0, -1):
            yield replace(asked, cores=cores)


def less_memory(asked: ContainerRequest) -> Iterator[ContainerRequest]:
    if asked.cores < 100:
        for units in range(asked.memory_units - 1, 0, -1):
            yield replace(asked, memory_units=units)


def figure(each: ContainerRequest, kind: Kind) -> int:
    return each.cores if kind is Kind.FEWER_CORES else each.memory_units


@profiles.at_least(600)
@given(changed(crowded))
def test_fewer_cores_and_less_memory_leave_the_largest_part_that_fits(
    case: Case,
) -> None:
    node, request = case.node, case.request
    changes = told(settle([node], ()), request)
    if reference.fits_somehow(node, request):
        return
    for kind, lower in ((Kind.FEWER_CORES, fewer_cores), (Kind.LESS_MEMORY, less_memory)):
        kept: list[Fraction] = []
        for asked in request.containers:
            fitting = (
                Fraction(figure(less, kind), figure(asked, kind))
                for less in lower(asked)
                if reference.fits_somehow(node, with_one(request, asked, less))
            )
            kept += itertools.islice(fitting, 1)
        assert (kind in changes) == bool(kept), kind
        if kept:
            change = changes[kind]
            now = [
                Fraction(figure(new, kind), figure(old, kind))
                for old, new in zip(request.containers, change.request.containers, strict=True)
                if old != new
            ]
            assert now == [max(kept)]
            assert not reference.complaint(node, change.request, change.placement)


@profiles.at_least(600)
@given(changed(short))
def test_a_smaller_share_is_named_last_and_fits_with_no_unit_more(
    case: Case,
) -> None:
    node, request = case.node, case.request
    changes = told(settle([node], ()), request)
    change = changes.get(Kind.SMALLER_SHARE)
    if change is None:
        return
    assert not changes.keys() & {Kind.FEWER_CORES, Kind.LESS_MEMORY}
    assert not reference.complaint(node, change.request, change.placement)
    for old, new in zip(request.containers, change.request.containers, strict=True):
        if old == new:
            continue
        assert new.cores < old.cores
        assert new.memory_units < old.memory_units
        for more in (
            replace(new, cores=new.cores + 1),
            replace(new, memory_units=new.memory_units + 1),
        ):
            assert not reference.fits_somehow(node, with_one(change.request, new, more))


@profiles.at_least(600)
@given(changed(picky))
def test_a_condition_is_dropped_if_that_alone_helps_and_only_as_needed(
    case: Case,
) -> None:
    node, request = case.node, case.request
    changes = told(settle([node], ()), request)
    if reference.fits_somehow(node, request):
        return
    wider = DEMANDS[DEMANDS.index(request.topology) + 1 :]
    enough = [
        demand
        for demand in wider
        if reference.fits_somehow(node, replace(request, topology=demand))
    ]
    assert (Kind.OTHER_TOPOLOGY in changes) == bool(enough)
    if enough:
        assert changes[Kind.OTHER_TOPOLOGY].request == replace(request, topology=enough[0])
    free = replace(request, uuids=ANY)
    named = request.uuids != ANY and reference.fits_somehow(node, free)
    assert (Kind.OTHER_UUID in changes) == named


@given(changed(sick))
def test_no_smaller_set_of_repaired_cards_helps(case: Case) -> None:
    node, request = case.node, case.request
    change = told(settle([node], ()), request).get(Kind.CARDS_REPAIRED)
    if reference.fits_somehow(node, request):
        return
    broken = [card for card in node.cards if not card.healthy]
    least = next(
        (
            size
            for size in range(1, len(broken) + 1)
            for cards in itertools.combinations(broken, size)
            if reference.fits_somehow(repaired(node, cards), request)
        ),
        None,
    )
    assert (len(change.names) if change else None) == least
    if change:
        names = tuple(card for card in broken if f"{card.minor} ({card.uuid})" in change.names)
        assert not reference.complaint(repaired(node, names), request, change.placement)


def repaired(node: Node, cards: tuple[Card, ...]) -> Node:
    return replace(
        node, cards=tuple(replace(c, healthy=True) if c in cards else c for c in node.cards)
    )


@given(SMALL, dice)
def test_no_smaller_set_of_pods_has_to_end(case: Case, rolled: random.Random) -> None:
    node, request = case.node, case.request
    tenants: dict[str, tuple[Tenant, PodRequest]] = {}
    cluster = settle([node], ())
    for number in range(4):
        ask = small_pod(rolled, node)
        answer = place(cluster.nodes[node.name], ask)
        if isinstance(answer, Placement):
            name = f"t{number}"
            tenant = Tenant(uid=name, namespace="team", name=name, placement=answer)
            tenants[tenant.title] = tenant, ask
            cluster = settle([node], [each for each, _ in tenants.values()])
    change = told(cluster, request).get(Kind.PODS_END)
    if reference.fits_somehow(cluster.nodes[node.name], request):
        return

    def after(leaving: tuple[str, ...]) -> Node:
        """Return the node with the uses of the pods that stay, counted anew."""
        uses = [(use.cores, use.memory_units) for use in node.uses]
        for title in tenants.keys() - set(leaving):
            tenant, ask = tenants[title]
            for at, (cores, units) in reference.held(node, ask, tenant.placement).items():
                uses[at] = uses[at][0] + cores, uses[at][1] + units
        return node.with_uses(tuple(Use(cores=c, memory_units=m) for c, m in uses))

    least = next(
        (
            size
            for size in range(1, len(tenants) + 1)
            for leaving in itertools.combinations(sorted(tenants), size)
            if reference.fits_somehow(after(leaving), request)
        ),
        None,
    )
    assert (len(change.names) if change else None) == least
    if change:
        assert not reference.complaint(after(change.names), request, change.placement)
        assert change.smallest
