"""What the cluster would have to have: cards repaired, cards added, more quota."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpustack.model import quota
from gpustack.model.advice.question import Change, Kind, Question, largest
from gpustack.model.device import Card, Node
from gpustack.model.explanation import Refusal
from gpustack.model.holding import Placement
from gpustack.model.quota import Quota, cards_text
from gpustack.model.topology import FARTHEST_TOKEN, SELF_TOKEN, Links, parse_link

_MOST_REPAIRS: Final = 256  # sets of cards of one node; eight broken cards have as many


def search(question: Question) -> Iterator[Change]:
    """Yield what would have to be there."""
    yield from _repaired(question)
    yield from _more_cards(question)
    yield from _more_quota(question)


def _repaired(question: Question) -> Iterator[Change]:
    """Find the fewest unhealthy cards of one node that must come back."""
    best: tuple[tuple[Card, ...], Placement] | None = None
    for node in question.kinds:
        broken = [card for card in node.cards if not card.healthy]
        most = len(broken) if best is None else len(best[0]) - 1
        sizes = (itertools.combinations(broken, size) for size in range(1, most + 1))
        for cards in itertools.islice(itertools.chain.from_iterable(sizes), _MOST_REPAIRS):
            answer = question.ask(_with_repaired(node, cards), question.request)
            if isinstance(answer, Placement):
                best = cards, answer
                break
    if best is not None:
        cards, placement = best
        names = tuple(f"{card.minor} ({card.uuid or 'no UUID'})" for card in cards)
        yield Change(
            kind=Kind.CARDS_REPAIRED,
            text=f"card {', '.join(names)} of {placement.node} is healthy again",
            request=question.request,
            placement=placement,
            names=names,
        )


def _with_repaired(node: Node, cards: tuple[Card, ...]) -> Node:
    return replace(
        node,
        cards=tuple(replace(c, healthy=True) if c in cards else c for c in node.cards),
    )


def _more_cards(question: Question) -> Iterator[Change]:
    """Find the smallest number of free cards that one node would need on top."""
    most = sum(each.card_count for each in question.request.containers)
    like = {
        node.name: card
        for node in question.kinds
        for card in reversed(node.cards)
        if card.healthy and question.request.accepts(card)
    }

    def with_added(node: Node, less: int) -> Placement | Refusal:
        return question.ask(grown(node, like[node.name], -less), question.request)

    nodes = [node for node in question.kinds if node.name in like]
    found = largest(nodes, -most, -1, with_added)
    if found is not None:
        count, model = -found.figure, like[found.placement.node].model
        more = "one more" if count == 1 else f"{count} more"
        named = f" {model}" if model else ""
        minor = like[found.placement.node].minor
        yield Change(
            kind=Kind.MORE_CARDS,
            text=f"node {found.placement.node} has {more} free{named}, joined like card {minor}",
            request=question.request,
            placement=found.placement,
            count=count,
        )


def grown(node: Node, like: Card, count: int) -> Node:
    """Return the node with `count` more free cards, each joined to the others as `like` is.

    To `like` itself, and to each other, they are joined as `like` is to its nearest neighbour.
    """
    at = node.cards.index(like)
    last = node.cards[-1].minor
    added = tuple(replace(like, minor=last + step, uuid="", bus="") for step in range(1, count + 1))
    uses = (*node.uses, *(type(node.uses[at])() for _ in added))
    return replace(node, cards=(*node.cards, *added), uses=uses, links=_grown(node, at, count))


def _grown(node: Node, at: int, count: int) -> Links:
    if not node.links:
        return ()
    others = [token for index, token in enumerate(node.links[at]) if index != at]
    near = min(others, key=lambda token: parse_link(token).cost, default=FARTHEST_TOKEN)
    size = len(node.cards)

    def token(row: int, column: int) -> str:
        if row == column:
            return SELF_TOKEN
        one, two = (at if index >= size else index for index in (row, column))
        return near if one == two else node.links[one][two]

    every = range(size + count)
    return tuple(tuple(token(row, column) for column in every) for row in every)


def _more_quota(question: Question) -> Iterator[Change]:
    """Find the least increase of the namespace's quota."""
    if not question.limited:
        return
    namespace = question.pod.namespace
    now = question.cluster.quota
    options: list[tuple[int, int, str, Quota, Placement]] = []
    for node in question.kinds:
        answer = question.placer(node, question.request)
        if isinstance(answer, Refusal):
            continue
        then = quota.raised(now, question.usage, namespace, node, answer)
        again = quota.within(then, question.usage, namespace, question.placer)(
            node, question.request
        )
        if isinstance(again, Placement):
            options.append((*_increase(now, then, namespace), node.name, then, again))
    if options:
        *_, then, placement = min(options, key=lambda each: each[:3])
        yield Change(
            kind=Kind.MORE_QUOTA,
            text=f"the quota of namespace {namespace!r} allows {_told(now, then, namespace)}",
            request=question.request,
            placement=placement,
            quota=then,
        )


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
    return " and ".join([*pools, *cards])
