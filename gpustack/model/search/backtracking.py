"""One search for one pod on one node: its containers one after another, taken back where needed.

The demanding containers come first, each on its best cards. Where that leaves a later one without
any, the search goes back to the last choice that has an alternative. Three things keep it short:

- it goes down once before it asks whether it can succeed at all (most pods fit, or fail, at once);
  from the first dead end on, whatever `bounds` shows to be hopeless isn't entered;
- what failed once isn't tried again on cards that are alike;
- work is counted (`budget`). Once it is spent no choice is taken back any more, and a refusal says
  that it is not proven.

A caller may have the last word about a whole placement (`Accepts`: a quota by models); then cards
of different models are never alike, and what isn't accepted of some containers is a dead end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpustack.model.node import Node
from gpustack.model.placement import (
    ContainerPlacement,
    Placement,
    apply,
    holds,
    inherited_minors,
    placed,
    sidecars_before,
    take_of,
)
from gpustack.model.policies.base import Policy
from gpustack.model.refusal import Refusal
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest, Topology
from gpustack.model.search import bounds, diagnosis, steps, whole_cards
from gpustack.model.search.budget import SearchBudget
from gpustack.model.search.demand import Demand, usable
from gpustack.model.units import CORES_PER_CARD
from gpustack.model.use import Use

Accepts = Callable[[Placement], bool]
"""Says yes or no to a placement of some containers, and of more of them no where it said no.

To two that differ only in cards of one model it says the same, unless init containers are there."""

_STEP_LOOKS = 20
"""What entering a step costs beside one look at each card."""


@dataclass(slots=True, kw_only=True)
class _Frame:
    """A container on the way down."""

    step: ContainerRequest
    state: Node  # the node as the container finds it
    own: frozenset[int]  # positions of the cards that the containers before it hold
    key: tuple[object, ...]  # what it and all later ones depend on
    choices: Iterator[tuple[int, ...]]  # those that are left
    met: bool = False  # True once there was one


class Attempt:
    """The search; `answer` is its one question."""

    def __init__(
        self, node: Node, request: PodRequest, policy: Policy, accepts: Accepts | None = None
    ) -> None:
        self._node = node
        self._request = request
        self._policy = policy
        self._accepts = accepts
        self._steps = steps.in_order(request, cores_first=accepts is not None)
        self._running = sum(step.kind is not ContainerKind.INIT for step in self._steps)
        self._usable = usable(node, request)
        self._sizes = [card.memory_units for card in node.cards]
        # What tells one card from another, beside what is taken of them.
        self._marks = tuple(self._sizes) if accepts is None else steps.marks(node)
        self._done: list[ContainerPlacement] = []
        self._effort = SearchBudget()
        self._demands: dict[int, bounds.RemainingDemands] = {}
        self._failed: set[tuple[object, ...]] = set()
        self._turned = False  # met a dead end
        self._deepest = -1
        self._obstacle: Refusal | None = None

    def answer(self) -> Placement | Refusal:
        """Place the pod, or say what stands in its way."""
        return self._placement() if self._search() else self._refusal()

    def _placement(self) -> Placement:
        by_container = {(each.kind, each.index): each for each in self._done}
        ordered = tuple(by_container[each.kind, each.index] for each in self._request.containers)
        sets = (self._node.indexes_of(each.minors) for each in self._done if not each.is_share)
        gap = next((self._effort.gaps[each] for each in sets if each in self._effort.gaps), None)
        return Placement(node=self._node.name, containers=ordered, gap=gap)

    def _refusal(self) -> Refusal:
        """Return the obstacle of the container that the search came farthest to."""
        found = self._obstacle
        if found is None:
            found = diagnosis.explain(self._node, self._request, self._steps[0])
        if not self._effort.cut:
            return found
        detail = (
            f"{found.detail}; the search was stopped with {len(self._steps)} containers on "
            f"{len(self._usable)} cards, so this is not proven"
        )
        return Refusal(reason=found.reason, cards=found.cards, detail=detail)

    def _search(self) -> bool:
        """Fill `_done` with a placement of every step; False where there is none."""
        frames: list[_Frame] = []
        if not self._enter(frames, self._node, frozenset()):
            return not self._steps
        while frames:
            frame = frames[-1]
            del self._done[len(frames) - 1 :]
            indexes = next(frame.choices, None)
            if indexes is None:
                frames.pop()
                if not self._go_back(frame, len(frames)):
                    return False
                continue
            frame.met = True
            self._done.append(placed(frame.state, frame.step, indexes))
            if self._accepts is not None and not self._accepts(self._so_far()):
                self._effort.spend(_STEP_LOOKS + len(self._usable))
                if self._spent():
                    return False
                continue
            if len(self._done) == len(self._steps):
                return True
            running, own = self._after(frame, indexes), frame.own.union(indexes)
            if not self._enter(frames, running, own) and self._spent():
                return False
        return False

    def _enter(self, frames: list[_Frame], running: Node, own: frozenset[int]) -> bool:
        """Begin the next step, unless it is known to fail."""
        at = len(frames)
        if at == len(self._steps):
            return False
        step = self._steps[at]
        self._effort.spend(_STEP_LOOKS + len(self._usable))
        state = self._beside(step) if step.kind is ContainerKind.INIT else running
        key = self._key(at, state, own)
        if key in self._failed:
            return False
        if self._turned and at < self._running and self._hopeless(at, state):
            self._failed.add(key)
            return False
        choices = self._choices(step, state, own)
        frames.append(_Frame(step=step, state=state, own=own, key=key, choices=choices))
        return True

    def _go_back(self, frame: _Frame, at: int) -> bool:
        """Note that a step failed; False where the search must end."""
        self._failed.add(frame.key)
        if not frame.met and at > self._deepest:
            self._deepest = at
            self._obstacle = diagnosis.explain(frame.state, self._request, frame.step)
        if not self._turned and at:
            self._turned = True
            if self._hopeless(0, self._node):
                return False
        return at == 0 or not self._spent()

    def _spent(self) -> bool:
        """Say whether the search must end here, with choices left that are not tried."""
        self._effort.cut |= self._effort.left < 0
        return self._effort.left < 0

    def _hopeless(self, at: int, state: Node) -> bool:
        if at not in self._demands:
            self._effort.spend(self._running - at)
            self._demands[at] = bounds.demands(self._steps[at : self._running])
        asked = self._demands[at]
        self._effort.spend(len(self._usable) * (2 + len(asked.crowds)) // 4)
        rooms = [
            bounds.FreeCapacity(
                cores=state.free_cores(index),
                memory_units=state.free_memory_units(index),
                idle=state.uses[index].idle,
            )
            for index in self._usable
        ]
        return bounds.hopeless(rooms, asked)

    def _key(self, at: int, state: Node, own: frozenset[int]) -> tuple[object, ...]:
        """Return what the steps from `at` on depend on."""
        if self._running < len(self._steps):
            # Init containers see which cards the pod holds, and what runs beside them.
            beside = self._done[: self._running]
            side = tuple(each for each in beside if each.kind is ContainerKind.SIDECAR)
            return at, state.uses, own, side, self._held()
        if self._request.topology is not Topology.BEST_EFFORT and self._steps[at].whole_cards:
            return at, state.uses
        # Which card is which doesn't matter any more.
        uses = state.uses
        return at, *sorted((uses[i].cores, uses[i].memory_units, self._marks[i])
                           for i in self._usable)  # fmt: skip

    def _held(self) -> frozenset[tuple[int, Use]]:
        """Return what the pod holds so far of each card, where that decides about all of it."""
        if self._accepts is None:
            return frozenset()
        return frozenset(holds(self._node, self._so_far()).items())

    def _so_far(self) -> Placement:
        return Placement(node=self._node.name, containers=tuple(self._done))

    def _beside(self, step: ContainerRequest) -> Node:
        """Return the node as an init container finds it."""
        containers = tuple(sidecars_before(self._done[: self._running], step.index))
        return apply(self._node, Placement(node=self._node.name, containers=containers))

    def _after(self, frame: _Frame, indexes: tuple[int, ...]) -> Node:
        """Return the node as the next container finds it that runs beside this one."""
        if frame.step.kind is ContainerKind.INIT:
            return self._node
        uses = list(frame.state.uses)
        for index in indexes:
            uses[index] += take_of(frame.state, self._done[-1], index)
        return frame.state.with_uses(tuple(uses))

    def _choices(
        self, step: ContainerRequest, state: Node, own: frozenset[int]
    ) -> Iterator[tuple[int, ...]]:
        fitting = [index for index in self._usable if self._fits(step, state.uses[index], index)]
        apart = steps.apart(self._usable, self._request, own)
        if step.kind is not ContainerKind.INIT:
            own = frozenset()  # to the others the pod's own cards are like any
        else:
            heir = inherited_minors(step, self._done[: self._running])
            if heir is not None:
                indexes = tuple(i for i in own if state.cards[i].minor in heir)
                if set(indexes) <= set(fitting):
                    yield tuple(sorted(indexes))
        if step.is_share:
            yield from self._shares(state, step, [i for i in fitting if not own or i in own], apart)
            return
        within = tuple(i for i in fitting if i in own)
        if len(own) >= step.whole_cards:
            candidates, forced = within, within[:0]
        elif len(own) == len(within):
            candidates, forced = tuple(fitting), within
        else:
            return
        marks = self._marks
        if self._accepts is not None and step.kind is ContainerKind.INIT:
            marks = tuple(range(len(marks)))  # of its own cards the pod holds different parts
        demand = Demand(
            count=step.whole_cards,
            candidates=candidates,
            forced=forced,
            marks=marks,
            effort=self._effort,
        )
        exact = whole_cards.choices(state, self._request, demand)
        yield from self._policy.wholes(state, self._request, demand, exact)

    def _fits(self, step: ContainerRequest, use: Use, index: int) -> bool:
        """Say what `diagnosis.of_card` says of a usable card, quickly."""
        if step.whole_cards:
            return use.idle
        return (
            use.cores + step.cores <= CORES_PER_CARD
            and use.memory_units + step.memory_units <= self._sizes[index]
        )

    def _shares(
        self, state: Node, step: ContainerRequest, fitting: list[int], apart: frozenset[int]
    ) -> Iterator[tuple[int, ...]]:
        seen: set[tuple[Use, int]] = set()
        for index in self._policy.shares(state, self._request, step, fitting):
            alike = state.uses[index], self._marks[index]
            # A second card just like one that failed would fail as well.
            if index in apart or alike not in seen:
                yield (index,)
            if index not in apart:
                seen.add(alike)
