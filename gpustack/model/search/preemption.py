"""Which pods of a node must end so that a more important one fits: the fewest that free its cards.

kube-scheduler proposes victims by the node's totals, which say nothing about single cards. Here
sets of pods are compared by what the cards are like after them. A set is better than another when

1. fewer of its pods are protected by a PodDisruptionBudget that allows no more to end;
2. it has fewer pods; one that is ending anyway costs nothing;
3. its most important pod has the lower priority, then the sum of its priorities is lower;
4. more of it was proposed by the scheduler, which may need that pod's CPU as well.

The search is exact within its bounds of tries and time: pods are kept one after another, and a pod
that can't be kept beside the ones kept before must end (ending more pods never takes room away).
After the bound the best set so far stands. It still has no pod that could be kept.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from gpustack.model.cluster.cluster import Tenant
from gpustack.model.node import Node
from gpustack.model.placement import holds
from gpustack.model.use import Use

MOST_TRIES: Final = 1_000
"""Sets of pods that are tried for one node beside the first two.

For 50 pods on 8 cards a set takes 0.2 to 2 ms.
"""


class TimeOver(Exception):
    """There is no time to try another set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pod that may be ended.

    Attributes:
        tenant: the pod and what it holds.
        priority: its priority; any integer.
        started: when it started, in any unit; of like pods the older one is kept.
        protected: its PodDisruptionBudget allows no pod more to end.
        proposed: the scheduler would end it.
        ending: it is being deleted already.
    """

    tenant: Tenant
    priority: int = 0
    started: int = 0
    protected: bool = False
    proposed: bool = False
    ending: bool = False


Leaving = tuple[Candidate, ...]
Fits = Callable[[Leaving], bool]
"""Says whether the pod has room once these have ended. More of them never means less room.

May raise `TimeOver`: then the best set so far stands, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victims:
    """The pods to end.

    Attributes:
        pods: the most important first, as the scheduler wants them.
        smallest: no better set exists; False where a bound ended the search.
    """

    pods: Leaving
    smallest: bool


def without(node: Node) -> Callable[[Leaving], Node]:
    """Return what gives `node`, which counts them all, once some pods have ended.

    What a pod holds is added up once: it may have 64 containers, and thousands of sets are tried.
    """
    held: dict[str, Mapping[int, Use]] = {}

    def left(leaving: Leaving) -> Node:
        uses = list(node.uses)
        for each in leaving:
            uid = each.tenant.uid
            if uid not in held:
                held[uid] = holds(node, each.tenant.placement)
            for index, use in held[uid].items():
                uses[index] -= use
        return node.with_uses(tuple(uses))

    return left


def victims(
    candidates: Sequence[Candidate], fits: Fits, *, most_tries: int = MOST_TRIES
) -> Victims | None:
    """Return the best set of candidates whose end makes room; None where all together don't.

    The candidates are the pods of one node; `fits` is called at most `most_tries` +
    2 * len(candidates) + 1 times.

    Raises:
        TimeOver: of `fits`, before a set without a pod that could be kept was found.
    """
    if not fits(tuple(candidates)):
        return None
    by_room = sorted(candidates, key=_kept_first(candidates))
    found, smallest = _keep_first(sorted(candidates, key=importance), fits), False
    with contextlib.suppress(TimeOver):
        found = min((found, _keep_first(by_room, fits)), key=_cost)
        found, smallest = _search(by_room, fits, found, most_tries)
    return Victims(pods=tuple(sorted(found, key=importance)), smallest=smallest)


def importance(candidate: Candidate) -> tuple[int, int, str]:
    """Order pods as kube-scheduler does: higher priority first, then the older ones."""
    return -candidate.priority, candidate.started, candidate.tenant.uid


def _keep_first(order: Sequence[Candidate], fits: Fits) -> Leaving:
    """Keep each pod that can be kept, in this order; the others leave."""
    leaving = tuple(order)
    for each in order:
        fewer = tuple(other for other in leaving if other is not each)
        if fits(fewer):
            leaving = fewer
    return leaving


def _search(
    order: Sequence[Candidate], fits: Fits, best: Leaving, most_tries: int
) -> tuple[Leaving, bool]:
    """Go through all ways to keep or not to keep, with what costs too much cut off."""
    lowest = _cost(best)
    tries = 0
    open_ways: list[tuple[int, Leaving]] = [(0, ())]
    while open_ways:
        at, leaving = open_ways.pop()
        # A larger set never costs less, so what began too dear ends too dear.
        if _cost(leaving) >= lowest:
            continue
        if at == len(order):
            best, lowest = leaving, _cost(leaving)
            continue
        if tries == most_tries:
            return best, False
        tries += 1
        # A pod that leaves takes the like ones along: of those, the first in order are kept.
        kind = _kind(order[at])
        like = tuple(takewhile(lambda each: _kind(each) == kind, order[at:]))  # noqa: B023
        open_ways.append((at + len(like), leaving + like))
        try:
            is_kept = fits(leaving + tuple(order[at + 1 :]))
        except TimeOver:
            return best, False
        if is_kept:
            open_ways.append((at + 1, leaving))
    return best, True


def _cost(leaving: Leaving) -> tuple[int, ...]:
    living = [each for each in leaving if not each.ending]
    return (
        sum(each.protected for each in living),
        len(living),
        max((each.priority for each in living), default=_LOWEST),
        sum(each.priority - _LOWEST for each in living),
        sum(not each.proposed for each in living),
        len(leaving),
    )


_LOWEST: Final = -(1 << 31)  # priorities are 32 bits; counted from here a sum can't shrink


def _kind(candidate: Candidate) -> tuple[object, ...]:
    """Return what tells a pod from others as a victim: two of a kind can stand for each other."""
    held = tuple(
        (each.kind.value, each.index, each.minors, each.uuids, each.cores, each.memory_units)
        for each in candidate.tenant.placement.containers
    )
    return (
        candidate.protected,
        candidate.priority,
        candidate.proposed,
        candidate.ending,
        candidate.tenant.namespace,  # a quota looks at it
        held,
    )


def _kept_first(candidates: Sequence[Candidate]) -> Callable[[Candidate], tuple[object, ...]]:
    """Return an order that finds small sets early: pods with few beside them are kept last."""
    crowd: Counter[int] = Counter()
    for each in candidates:
        crowd.update(_minors(each))

    def order(each: Candidate) -> tuple[object, ...]:
        room = sum(1 / crowd[minor] for minor in sorted(_minors(each)))
        return not each.protected, each.ending, room, _kind(each), importance(each)

    return order


def _minors(candidate: Candidate) -> set[int]:
    return {minor for each in candidate.tenant.placement.containers for minor in each.minors}
