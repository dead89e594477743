"""More quota: alone where a node has the cards, beside another change where none has them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from gpustack.model.equivalence import hardware
from gpustack.model.explain.query import Change, Kind, Query
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.quota import check
from gpustack.model.quota.fewer_models import others
from gpustack.model.quota.quota import Quota
from gpustack.model.refusal import Refusal
from gpustack.model.units import cards_text
from gpustack.model.use import Use

_MOST_QUOTAS: Final = 3  # each costs a whole search


def search(question: Query) -> Iterator[Change]:
    """Yield the least increase of the namespace's quota that is enough alone."""
    if not question.limited:
        return
    now, namespace = question.cluster.quota, question.pod.namespace
    options: list[tuple[int, int, str, Quota, Placement]] = []
    for node in question.kinds:
        for then in _enough(question, node):
            again = question.within(then)(node, question.request)
            if isinstance(again, Placement):
                options.append((*_increase(now, then, namespace), node.name, then, again))
    if options:
        *_, then, placement = min(options, key=lambda each: each[:3])
        then, placement = _lowered(question, then, placement)
        yield Change(
            kind=Kind.MORE_QUOTA,
            text=_told(now, then, namespace),
            request=question.request,
            placement=placement,
            quota=then,
        )


def _lowered(question: Query, then: Quota, placement: Placement) -> tuple[Quota, Placement]:
    """Lower a quota for as long as a hundredth less of one model is enough somewhere.

    `others` leaves out whole models, and doesn't try which container stands on which.
    """
    now, namespace = question.cluster.quota, question.pod.namespace
    while True:
        under = map(question.under, _one_less(now, then, namespace))
        found = next(filter(None, (each.somewhere(question.request) for each in under)), None)
        if found is None:
            return then, placement
        placement, node = found, question.cluster.nodes[found.node]
        then = check.raised(now, question.usage, namespace, node, placement)


def _one_less(now: Quota, then: Quota, namespace: str) -> Iterator[Quota]:
    """Yield the quota with a hundredth less of each model that it raises."""
    limit, old = then.namespaces[namespace], now.namespaces[namespace].cards
    for name, most in limit.cards.items():
        if most > old.get(name, 0):
            less = replace(limit, cards={**limit.cards, name: most - 1})
            yield Quota(namespaces={**then.namespaces, namespace: less})


def beside(question: Query, find: Callable[[Query], Iterable[Change]]) -> tuple[Change, ...]:
    """Return what `find` finds under a larger quota, for a pod that no single change helps.

    A full cluster hides that the quota is too small: what it must allow is asked of nodes as they
    would be idle and healthy. The least increase under which something helps is taken.
    """
    if not question.limited:
        return ()
    now, namespace = question.cluster.quota, question.pod.namespace
    quotas: list[Quota] = []
    for node in _idle(question.cluster.nodes.values()):
        quotas.extend(then for then in _enough(question, node) if then not in (now, *quotas))
    quotas.sort(key=lambda then: _increase(now, then, namespace))
    for then in quotas[:_MOST_QUOTAS]:
        found = tuple(find(question.under(then)))
        if found:
            return tuple(_both(question, change, then) for change in found)
    return ()


def _idle(nodes: Iterable[Node]) -> list[Node]:
    """Return one of all nodes that are alike when nothing is taken and every card is healthy."""
    found: dict[object, Node] = {}
    for node in nodes:
        cards = tuple(replace(card, healthy=True) for card in node.cards)
        idle = replace(node, cards=cards, uses=tuple(Use() for _ in cards))
        found.setdefault((hardware(idle), idle.pool), idle)
    return list(found.values())


def _enough(question: Query, node: Node) -> Iterator[Quota]:
    """Yield the least quotas that allow the pod what it could get of a node."""
    answer = question.placer(node, question.request)
    if isinstance(answer, Refusal):
        return
    now, namespace = question.cluster.quota, question.pod.namespace
    for each in (answer, *others(node, question.request, question.placer)):
        yield check.raised(now, question.usage, namespace, node, each)


def _both(question: Query, change: Change, then: Quota) -> Change:
    """Return a change that was found under the quota `then`, with what the quota must be."""
    now, namespace = question.cluster.quota, question.pod.namespace
    quota = _least(question, change, then)
    if quota == now:
        return change
    also = _told(now, quota, namespace)
    return replace(change, text=f"{change.text}, and {also}", also=also, quota=quota)


def _least(question: Query, change: Change, then: Quota) -> Quota:
    """Return the least quota that allows the change's own placement; `then`, on added cards."""
    node, found = question.cluster.nodes[change.placement.node], change.placement
    here = {card.minor for card in node.cards}
    if any(minor not in here for each in found.containers for minor in each.minors):
        return then
    ending = change.names if change.kind is Kind.PODS_END else ()
    leaving = [each.uid for each in question.cluster.tenants if each.title in ending]
    now, namespace = question.cluster.quota, question.pod.namespace
    return check.raised(now, question.usage, namespace, node, found, without=leaving)


def _increase(now: Quota, then: Quota, namespace: str) -> tuple[int, int]:
    """Return how many names are new to the quota, and by how many hundredths it grows."""
    old, new = now.namespaces[namespace], then.namespaces[namespace]
    names = len(new.pools) - len(old.pools) + len(new.cards) - len(old.cards)
    return names, sum(new.cards.values()) - sum(old.cards.values())


def _told(now: Quota, then: Quota, namespace: str) -> str:
    old, new = now.namespaces[namespace], then.namespaces[namespace]
    pools = [f"pool {pool!r}" for pool in new.pools if pool not in old.pools]
    cards = [
        f"{cards_text(limit)} instead of {cards_text(old.cards.get(name, 0))} {name} cards"
        for name, limit in sorted(new.cards.items())
        if limit != old.cards.get(name)
    ]
    return f"the quota of namespace {namespace!r} allows {' and '.join([*pools, *cards])}"
