"""The answer: which cards of a node a pod gets, or why none; and in which order nodes are taken.

A pod is placed as a whole. Its containers are tried one after another, the demanding ones first,
each on its best cards; where that leaves a later container without any, the earlier choice is
taken back and the next best one tried, so a refusal means that no choice fits.

- A share needs room on one card, whole cards must be wholly free; which of several choices is
  better is the policy's answer (`policies`), `exact` by default.
- An ordinary init container uses the pod's own cards, and others only when it needs more cards
  than the pod has: first the ones that `inherited_minors` names.
"""

from collections.abc import Iterable, Iterator

from gpustack.model import obstacles, whole
from gpustack.model.device import Node, Use
from gpustack.model.explanation import Reason, Refusal
from gpustack.model.holding import (
    ContainerPlacement,
    Placement,
    apply,
    holds,
    inherited_minors,
    placed,
    release,
    sidecars_before,
)
from gpustack.model.policies import EXACT, Policy
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest

__all__ = ["ContainerPlacement", "Placement", "apply", "holds", "place", "rank", "release"]

# A pod of many containers is a bin-packing problem. This many tries take a fraction of a second; no
# pod that people write comes near it, and a refusal says when it was the reason.
_MOST_TRIES = 5_000


def place(node: Node, request: PodRequest, policy: Policy = EXACT) -> Placement | Refusal:
    """Find cards on `node` for every container of a pod, or say why there are none."""
    request = policy.read(request)
    if not node.cards:
        return Refusal(reason=Reason.NO_CARDS, detail=f"node {node.name} has no cards")
    attempt = _Attempt(node, request, policy)
    found = attempt.search(0, ())
    if found is None:
        return attempt.refusal()
    by_container = {(each.kind, each.index): each for each in found}
    ordered = tuple(by_container[each.kind, each.index] for each in request.containers)
    return Placement(node=node.name, containers=ordered)


def rank(
    nodes: Iterable[Node], request: PodRequest, policy: Policy = EXACT
) -> list[tuple[Node, Placement]]:
    """Return the nodes that fit, the first choice first, each with its placement.

    The policy's order; by default binpack takes the fullest node first and spread the emptiest.
    Names break ties, so the order of `nodes` doesn't matter.
    """
    request = policy.read(request)
    answers = [(node, place(node, request, policy)) for node in nodes]
    fitting = [(node, answer) for node, answer in answers if isinstance(answer, Placement)]

    def order(entry: tuple[Node, Placement]) -> tuple[int, tuple[int, ...], str]:
        node, placement = entry
        fullness = policy.fullness(node, request.node_strategy)
        return policy.increase(node, placement), fullness, node.name

    return sorted(fitting, key=order)


Done = tuple[ContainerPlacement, ...]


def _demand(container: ContainerRequest) -> tuple[bool, int, int, int, str, int]:
    """Order of trying: what runs together before init containers, whole cards before shares."""
    return (
        container.kind is ContainerKind.INIT,
        -container.whole_cards,
        -container.memory_units,
        -container.cores,
        container.kind.value,
        container.index,
    )


class _Attempt:
    """One search for one pod on one node."""

    def __init__(self, node: Node, request: PodRequest, policy: Policy) -> None:
        self._node = node
        self._request = request
        self._policy = policy
        self._steps = sorted(request.containers, key=_demand)
        self._has_init = any(step.kind is ContainerKind.INIT for step in self._steps)
        self._failed: set[tuple[object, ...]] = set()
        self._tries = 0
        self._deepest = -1
        self._obstacle: Refusal | None = None

    def refusal(self) -> Refusal:
        """Return why the search failed: the obstacle of the container it came farthest to."""
        found = self._obstacle
        if found is None:
            found = obstacles.explain(self._node, self._request, self._steps[0])
        if self._tries <= _MOST_TRIES:
            return found
        stopped = f"stopped after {_MOST_TRIES} tries to fit {len(self._steps)} containers"
        return Refusal(reason=found.reason, cards=found.cards, detail=f"{found.detail}; {stopped}")

    def search(self, at: int, done: Done) -> Done | None:
        """Place the containers from step `at` on beside those in `done`."""
        if at == len(self._steps):
            return done
        step = self._steps[at]
        state = self._state(step, done)
        key = (at, state.uses, self._memory_of(done))
        if key in self._failed:
            return None
        met = False
        for indexes in self._choices(step, state, done):
            met = True
            self._tries += 1
            if self._tries > _MOST_TRIES:
                break
            found = self.search(at + 1, (*done, placed(state, step, indexes)))
            if found is not None:
                return found
        if not met and at > self._deepest:
            self._deepest = at
            self._obstacle = obstacles.explain(state, self._request, step)
        self._failed.add(key)
        return None

    def _memory_of(self, done: Done) -> object:
        """What later steps depend on beside the cards' uses: init containers see who holds them."""
        if not self._has_init:
            return None
        cards = frozenset(minor for each in done for minor in each.minors)
        side = tuple(each for each in done if each.kind is ContainerKind.SIDECAR)
        return cards, side

    def _state(self, step: ContainerRequest, done: Done) -> Node:
        """Return the node as this container finds it while it runs."""
        beside: Iterable[ContainerPlacement] = done
        if step.kind is ContainerKind.INIT:
            beside = sidecars_before(done, step.index)
        placement = Placement(node=self._node.name, containers=tuple(beside))
        return apply(self._node, placement)

    def _choices(
        self, step: ContainerRequest, state: Node, done: Done
    ) -> Iterator[tuple[int, ...]]:
        fitting = [
            index
            for index in range(len(state.cards))
            if obstacles.of_card(state, self._request, step, index) is None
        ]
        own: set[int] = set()
        if step.kind is ContainerKind.INIT:
            own = self._cards_of(done)
            heir = inherited_minors(step, done)
            if heir is not None:
                indexes = tuple(i for i in own if state.cards[i].minor in heir)
                if set(indexes) <= set(fitting):
                    yield tuple(sorted(indexes))
        if step.is_share:
            yield from self._shares(state, step, [i for i in fitting if not own or i in own])
            return
        within = tuple(i for i in fitting if i in own)
        if len(own) >= step.whole_cards:
            demand = whole.Demand(candidates=within)
        elif len(own) == len(within):
            demand = whole.Demand(candidates=tuple(fitting), forced=within)
        else:
            return
        yield from self._policy.wholes(state, self._request, step, demand)

    def _cards_of(self, done: Done) -> set[int]:
        minors = {minor for each in done for minor in each.minors}
        return {index for index, card in enumerate(self._node.cards) if card.minor in minors}

    def _shares(
        self, state: Node, step: ContainerRequest, fitting: list[int]
    ) -> Iterator[tuple[int, ...]]:
        seen: set[tuple[Use, int]] = set()
        for index in self._policy.shares(state, self._request, step, fitting):
            alike = state.uses[index], state.cards[index].memory_units
            # A second card just like one that failed would fail as well; init containers look
            # at more than that (which cards are the pod's own).
            if self._has_init or alike not in seen:
                yield (index,)
            seen.add(alike)
