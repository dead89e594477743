"""Which pods must end: the smallest set on one node, or of the namespace where its quota is full.

Sets are tried by size over all nodes, so the first size that helps is the smallest. Among sets of
that size the one that holds least ends first, then the first by name. The search stops after
`MOST_TRIES` sets; then a set is given from which no pod can be left out, and marked as possibly
not the smallest.
"""

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpustack.model.advice.question import Change, Kind, Question
from gpustack.model.cluster import Tenant
from gpustack.model.device import model_matches
from gpustack.model.holding import Placement
from gpustack.model.quota import amounts

MOST_TRIES: Final = 4_000
"""Sets of pods that are tried: about half a second."""

_MOST_REDUCED: Final = 100  # nodes on which a set is looked for when the bound was reached
_MOST_NAMED: Final = 32  # pods of a namespace; who must wait for more of them needs more quota


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Pods that may end together, and the nodes that could have room then."""

    tenants: tuple[Tenant, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    leaving: tuple[Tenant, ...]
    placement: Placement
    smallest: bool

    @property
    def cost(self) -> tuple[int, int, list[str]]:
        titles = [tenant.title for tenant in self.leaving]
        return len(self.leaving), sum(map(_held, self.leaving)), titles


def search(question: Question) -> Iterator[Change]:
    """Yield the pods to wait for, when there are any whose end helps."""
    options = [each for each in (_of_a_node(question), _of_the_quota(question)) if each]
    found = min(options, key=lambda each: each.cost, default=None)
    if found is not None:
        names = tuple(tenant.title for tenant in found.leaving)
        one = len(names) == 1
        yield Change(
            kind=Kind.PODS_END,
            text=f"{'pod' if one else 'pods'} {', '.join(names)} {'ends' if one else 'end'}",
            request=question.request,
            placement=found.placement,
            names=names,
            smallest=found.smallest,
        )


def _of_a_node(question: Question) -> _Found | None:
    by_node: dict[str, list[Tenant]] = {}
    for tenant in question.cluster.tenants:
        by_node.setdefault(tenant.placement.node, []).append(tenant)
    every = (
        _Group(tenants=_ordered(by_node[node.name]), nodes=(node.name,))
        for node in question.nodes
        if node.name in by_node
    )
    groups = [each for each in every if question.after(each.tenants, each.nodes)]
    if not groups:
        return None
    return _exact(question, groups) or _irreducible(question, groups[:_MOST_REDUCED])


def _of_the_quota(question: Question) -> _Found | None:
    """Find whose end, on any node, leaves enough of the quota where cards are free already.

    One pod, the one that holds least, if one is enough; otherwise the largest first, which are the
    fewest where a single name of the quota stands in the way.
    """
    limit = question.cluster.quota.of(question.pod.namespace)
    nodes = _with_room(question)
    if limit is None or not nodes:
        return None
    parts = {
        tenant: sum(
            cores
            for model, cores in amounts(node, tenant.placement).items()
            if any(model_matches(name, model) for name in limit.cards)
        )
        for tenant in question.cluster.tenants
        if tenant.namespace == question.pod.namespace
        and (node := question.cluster.nodes.get(tenant.placement.node)) is not None
    }
    own = sorted(parts, key=lambda tenant: (parts[tenant], tenant.title))
    for tenant in own:
        placement = question.after([tenant], nodes)
        if placement is not None:
            return _Found(leaving=(tenant,), placement=placement, smallest=True)
    own = own[: -_MOST_NAMED - 1 : -1]
    least = bisect.bisect_left(
        range(len(own)), True, key=lambda count: bool(question.after(own[:count], nodes))
    )
    found = _reduce(question, _Group(tenants=tuple(reversed(own[:least])), nodes=nodes))
    if found is None:
        return None
    return replace(found, smallest=len(found.leaving) == 2 or len(limit.cards) == 1)


def _with_room(question: Question) -> tuple[str, ...]:
    """Return a node of each pool and set of models that has room but for the quota."""
    found: dict[object, str] = {}
    for node in question.kinds if question.limited else ():
        alike = node.pool, frozenset(card.model for card in node.cards)
        if alike not in found and isinstance(question.placer(node, question.request), Placement):
            found[alike] = node.name
    return tuple(found.values())


def _exact(question: Question, groups: Sequence[_Group]) -> _Found | None:
    """Return the cheapest set of the smallest size; None when the bound comes first."""
    tries = 0
    for size in range(1, max(len(group.tenants) for group in groups) + 1):
        best: _Found | None = None
        for group in groups:
            for leaving in itertools.combinations(group.tenants, size):
                tries += 1
                if tries > MOST_TRIES:
                    return best
                placement = question.after(leaving, group.nodes)
                if placement is None:
                    continue
                found = _Found(leaving=leaving, placement=placement, smallest=True)
                best = found if best is None or found.cost < best.cost else best
        if best is not None:
            return best
    return None


def _irreducible(question: Question, groups: Sequence[_Group]) -> _Found | None:
    """Return the smallest of the sets that are left when pods stay wherever they can."""
    found = (_reduce(question, group) for group in groups)
    return min((each for each in found if each), key=lambda each: each.cost, default=None)


def _reduce(question: Question, group: _Group) -> _Found | None:
    leaving = group.tenants
    placement = question.after(leaving, group.nodes)
    for tenant in reversed(group.tenants):
        fewer = tuple(each for each in leaving if each is not tenant)
        still = question.after(fewer, group.nodes)
        if still is not None:
            leaving, placement = fewer, still
    if placement is None:
        return None
    return _Found(leaving=leaving, placement=placement, smallest=False)


def _ordered(tenants: Sequence[Tenant]) -> tuple[Tenant, ...]:
    return tuple(sorted(tenants, key=lambda each: (_held(each), each.title, each.uid)))


def _held(tenant: Tenant) -> int:
    return sum(each.cores for each in tenant.placement.containers)
