"""Which pods must end: the smallest set on one node, or of the namespace where its quota is full.

Sets are tried by size over all nodes, those that hold least first, so the first set that helps is
the smallest, and of its size the one that holds least. A bound (`least`) says with which size to
begin. The search stops after `MOST_TRIES` sets; then sets are given from which no pod can be left
out, and the smallest of them is marked as possibly not the smallest of all, unless it is no larger
than the bound.
"""

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpustack.model.cluster.cluster import Tenant
from gpustack.model.explain import lower_bound
from gpustack.model.explain.query import Change, Kind, Query
from gpustack.model.node import Node
from gpustack.model.placement import Placement, release

MOST_TRIES: Final = 4_000
"""Sets of pods that are tried: about half a second."""

MOST_REDUCED: Final = 50
"""Nodes on which a set is looked for when the bound was reached."""

_MOST_LISTED: Final = 20_000  # sets of one size that are put in order
_MOST_NAMED: Final = 32  # pods; a pod that must wait for more of them needs more quota or cards


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Pods that may end together, and the node that has room when all of them have."""

    node: str
    tenants: tuple[Tenant, ...]  # those that hold least first
    least: int  # no set of fewer pods is enough


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    leaving: tuple[Tenant, ...]
    placement: Placement
    smallest: bool

    @property
    def cost(self) -> tuple[int, int, list[str]]:
        return len(self.leaving), *_cost(self.leaving)


def search(question: Query) -> Iterator[Change]:
    """Yield the pods to wait for, when there are any whose end helps."""
    groups = sorted(_groups(question), key=lambda group: (group.least, group.node))
    found = _exact(question, groups) or _irreducible(question, groups)
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


def _groups(question: Query) -> Iterator[_Group]:
    tenants, namespace = question.cluster.tenants, question.pod.namespace
    by_node: dict[str, list[Tenant]] = {}
    for tenant in tenants:
        by_node.setdefault(tenant.placement.node, []).append(tenant)
    own = _ordered([each for each in tenants if each.namespace == namespace])
    alike: set[object] = set()
    for node in question.nodes:
        here = by_node.get(node.name, [])
        bound = lower_bound.Takers(node, question.request, here).least()
        if bound is None or bound > _MOST_NAMED or not (here or question.limited):
            continue
        freed = node
        for tenant in here:
            freed = release(freed, tenant.placement)
        if question.fits(freed, question.request) is not None:
            yield _Group(node=node.name, tenants=_ordered(here), least=max(1, bound))
        elif question.limited and isinstance(question.placer(freed, question.request), Placement):
            # The quota stands in the way. Of nodes that have room, one of each kind is enough.
            room = isinstance(question.placer(node, question.request), Placement)
            kind = node.pool, frozenset(card.model for card in node.cards)
            if not (room and kind in alike):
                yield from _with_own(question, node, own, [] if room else here, bound)
            if room:
                alike.add(kind)


def _with_own(
    question: Query, node: Node, own: Sequence[Tenant], here: Sequence[Tenant], bound: int
) -> Iterator[_Group]:
    """Yield the pods `here` with the namespace's own, whose end makes room in the quota."""
    quota, namespace = question.cluster.quota, question.pod.namespace
    of_quota = lower_bound.of_quota(quota, question.usage, namespace, question.request, node)
    if of_quota is None or of_quota > _MOST_NAMED:
        return
    if here:
        elsewhere = (each for each in reversed(own) if each.placement.node != node.name)
        own = [*here, *itertools.islice(elsewhere, _MOST_NAMED)]
    tenants = _ordered(own)
    if question.after(tenants, node.name) is not None:
        yield _Group(node=node.name, tenants=tenants, least=max(1, bound, of_quota))


def _exact(question: Query, groups: Sequence[_Group]) -> _Found | None:
    """Return the cheapest set of the smallest size; None when the bound comes first."""
    tries = 0
    longest = max((len(group.tenants) for group in groups), default=0)
    for size in range(groups[0].least if groups else 1, longest + 1):
        listed = list(itertools.islice(_sets(groups, size), _MOST_LISTED + 1))
        for leaving, node in sorted(listed, key=lambda each: (_cost(each[0]), each[1])):
            tries += 1
            if tries > MOST_TRIES:
                return None
            placement = question.after(leaving, node)
            if placement is not None:
                return _Found(leaving=leaving, placement=placement, smallest=True)
        if len(listed) > _MOST_LISTED:
            return None
    return None


def _sets(groups: Sequence[_Group], size: int) -> Iterator[tuple[tuple[Tenant, ...], str]]:
    for group in groups:
        if group.least <= size:
            for leaving in itertools.combinations(group.tenants, size):
                yield leaving, group.node


def _irreducible(question: Query, groups: Sequence[_Group]) -> _Found | None:
    """Return the smallest of the sets that are left when pods stay wherever they can."""
    best: _Found | None = None
    for group in groups[:MOST_REDUCED]:
        found = _reduce(question, group)
        if found is not None and (best is None or found.cost < best.cost):
            best = found
        if best is not None and len(best.leaving) == groups[0].least:
            return replace(best, smallest=True)
    return best


def _reduce(question: Query, group: _Group) -> _Found | None:
    """Let pods stay, once beginning with those that hold most, once with those that hold least."""
    tenants = group.tenants
    if len(tenants) > _MOST_NAMED:
        count = bisect.bisect_left(
            range(len(tenants)),
            True,
            key=lambda last: question.after(tenants[len(tenants) - last :], group.node) is not None,
        )
        tenants = tenants[len(tenants) - count :]
    if len(tenants) > _MOST_NAMED:
        return None
    tried = (_let_stay(question, group.node, order) for order in (tenants, tenants[::-1]))
    return min((each for each in tried if each), key=lambda each: each.cost, default=None)


def _let_stay(question: Query, node: str, tenants: tuple[Tenant, ...]) -> _Found | None:
    leaving = tenants
    placement = question.after(leaving, node)
    for tenant in tenants:
        fewer = tuple(each for each in leaving if each is not tenant)
        still = question.after(fewer, node)
        if still is not None:
            leaving, placement = fewer, still
    if placement is None:
        return None
    return _Found(leaving=_ordered(leaving), placement=placement, smallest=False)


def _ordered(tenants: Sequence[Tenant]) -> tuple[Tenant, ...]:
    return tuple(sorted(tenants, key=lambda each: (_held(each), each.title, each.uid)))


def _cost(leaving: Sequence[Tenant]) -> tuple[int, list[str]]:
    return sum(map(_held, leaving)), [tenant.title for tenant in leaving]


def _held(tenant: Tenant) -> int:
    return sum(each.cores for each in tenant.placement.containers)
