"""Fewer cores or less memory: the largest figure that fits, so that one unit more does not.

What a pod asks can be lowered without ever making it harder to place, so the largest share that
fits is found by halving. That isn't so for the number of whole cards (ordinary init containers use
the pod's own cards, and fewer of them may be too few), so those are counted down one by one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gpustack.model.advice.question import Change, Kind, Question, with_container
from gpustack.model.holding import Placement
from gpustack.model.request import ContainerRequest, PodRequest
from gpustack.model.units import CORES_PER_CARD


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The largest figure that fits, and the answer."""

    figure: int
    request: PodRequest
    placement: Placement


def search(question: Question) -> Iterator[Change]:
    """Yield fewer cores, less memory, or, where neither alone helps, both."""
    alone = [*_best(question, _fewer_cores), *_best(question, _less_memory)]
    yield from alone or _best(question, _smaller_share)


def _best(
    question: Question,
    lower: Callable[[Question, ContainerRequest], tuple[float, Change] | None],
) -> list[Change]:
    """Try each container, and keep the one that loses the smallest part of what it asks."""
    tried = (lower(question, container) for container in question.request.containers)
    found = [each for each in tried if each is not None]
    return [max(found, key=lambda each: each[0])[1]] if found else []


def _fewer_cores(question: Question, container: ContainerRequest) -> tuple[float, Change] | None:
    found = None
    if not container.is_share:
        found = _fewer_cards(question, container)
    if found is None and (container.is_share or container.memory_units > 0):
        high = min(container.cores, CORES_PER_CARD) - 1
        found = _largest(question, 1, high, lambda cores: _asking(question, container, cores=cores))
    if found is None:
        return None
    what = f"{found.figure} instead of {container.cores} cores"
    return found.figure / container.cores, _change(Kind.FEWER_CORES, container, found, what)


def _fewer_cards(question: Question, container: ContainerRequest) -> _Found | None:
    for count in range(container.whole_cards - 1, 0, -1):
        request = _asking(question, container, cores=count * CORES_PER_CARD)
        placement = question.somewhere(request)
        if placement is not None:
            return _Found(figure=count * CORES_PER_CARD, request=request, placement=placement)
    return None


def _less_memory(question: Question, container: ContainerRequest) -> tuple[float, Change] | None:
    if not container.is_share:
        return None
    asked = container.memory_units
    found = _largest(
        question, 1, asked - 1, lambda units: _asking(question, container, memory=units)
    )
    if found is None:
        return None
    what = f"{found.figure} instead of {asked} memory units"
    return found.figure / asked, _change(Kind.LESS_MEMORY, container, found, what)


def _smaller_share(question: Question, container: ContainerRequest) -> tuple[float, Change] | None:
    """Lower both by the same part, then raise each again as far as it goes."""
    if not container.is_share:
        return None
    steps = max(container.cores, container.memory_units)

    def part(step: int) -> PodRequest:
        cores = max(1, container.cores * step // steps)
        memory = max(1, container.memory_units * step // steps)
        return _asking(question, container, cores=cores, memory=memory)

    found = _largest(question, 1, steps - 1, part)
    if found is None:
        return None
    low = _in(found.request, container)
    found = (
        _largest(
            question,
            low.cores,
            container.cores,
            lambda cores: _asking(question, container, cores=cores, memory=low.memory_units),
        )
        or found
    )
    cores = _in(found.request, container).cores
    found = (
        _largest(
            question,
            low.memory_units,
            container.memory_units,
            lambda units: _asking(question, container, cores=cores, memory=units),
        )
        or found
    )
    now = _in(found.request, container)
    what = (
        f"{now.cores} instead of {container.cores} cores and "
        f"{now.memory_units} instead of {container.memory_units} memory units"
    )
    part_left = min(now.cores / container.cores, now.memory_units / container.memory_units)
    return part_left, _change(Kind.SMALLER_SHARE, container, found, what)


def _largest(
    question: Question, low: int, high: int, ask_for: Callable[[int], PodRequest]
) -> _Found | None:
    """Return the largest figure from `low` to `high` that fits on any node; None: not even `low`.

    A node is asked first for more than the best so far, and halves only when it has that.
    """
    found: _Found | None = None
    for node in question.kinds:
        fits = low if found is None else found.figure + 1
        if fits > high:
            break
        answer = question.ask(node, ask_for(fits))
        if not isinstance(answer, Placement):
            continue
        too_much = high + 1
        while too_much - fits > 1:
            middle = (fits + too_much) // 2
            better = question.ask(node, ask_for(middle))
            if isinstance(better, Placement):
                fits, answer = middle, better
            else:
                too_much = middle
        found = _Found(figure=fits, request=ask_for(fits), placement=answer)
    return found


def _asking(
    question: Question,
    container: ContainerRequest,
    *,
    cores: int | None = None,
    memory: int | None = None,
) -> PodRequest:
    other = replace(
        container,
        cores=container.cores if cores is None else cores,
        memory_units=container.memory_units if memory is None else memory,
    )
    return with_container(question.request, other)


def _in(request: PodRequest, container: ContainerRequest) -> ContainerRequest:
    place = container.kind, container.index
    return next(each for each in request.containers if (each.kind, each.index) == place)


def _change(kind: Kind, container: ContainerRequest, found: _Found, what: str) -> Change:
    return Change(
        kind=kind,
        text=f"container {container.name!r} asks {what}",
        request=found.request,
        placement=found.placement,
        container=container.name,
    )
