"""Fewer cores or less memory: the largest figure that fits, so that one unit more does not.

What a pod asks can be lowered without ever making it harder to place, so the largest share that
fits is found by halving. That isn't so for the number of whole cards (ordinary init containers use
the pod's own cards, and fewer of them may be too few), so those are counted down one by one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gpustack.model.explain.query import Change, Kind, Query, largest, with_container
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.request import ContainerKind, ContainerRequest, PodRequest
from gpustack.model.units import CORES_PER_CARD, memory_text, size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a container asks at most, and the answer to its pod then."""

    container: ContainerRequest
    placement: Placement


def search(question: Query) -> Iterator[Change]:
    """Yield fewer cores, less memory, or, where neither alone helps, both."""
    alone = [*_best(question, _fewer_cores), *_best(question, _less_memory)]
    yield from alone or _best(question, _smaller_share)


def _best(
    question: Query,
    lower: Callable[[Query, ContainerRequest], tuple[float, Change] | None],
) -> list[Change]:
    """Try each container, and keep the one that loses the smallest part of what it asks."""
    tried = (lower(question, container) for container in _different(question.request))
    found = [each for each in tried if each is not None]
    return [max(found, key=lambda each: each[0])[1]] if found else []


def _different(request: PodRequest) -> Iterator[ContainerRequest]:
    """Yield one of all containers that ask alike; those that run first depend on their place."""
    seen: set[tuple[int, int]] = set()
    for container in request.containers:
        asked = container.cores, container.memory_units
        if container.kind is not ContainerKind.APP or asked not in seen:
            yield container
        if container.kind is ContainerKind.APP:
            seen.add(asked)


def _fewer_cores(question: Query, container: ContainerRequest) -> tuple[float, Change] | None:
    found = None
    if not container.is_share:
        found = _fewer_cards(question, container)
    if found is None and (container.is_share or container.memory_units > 0):
        high = min(container.cores, CORES_PER_CARD) - 1
        found = _most(question, 1, high, lambda cores: replace(container, cores=cores))
    if found is None:
        return None
    cores = found.container.cores
    what = f"{cores} instead of {container.cores} cores"
    if found.container.is_share and not container.is_share:
        what += f", a share of a card with {memory_text(container.memory_units)}"
    return cores / container.cores, _change(question, Kind.FEWER_CORES, found, what)


def _fewer_cards(question: Query, container: ContainerRequest) -> _Found | None:
    for count in range(container.whole_cards - 1, 0, -1):
        fewer = replace(container, cores=count * CORES_PER_CARD)
        placement = question.somewhere(with_container(question.request, fewer))
        if placement is not None:
            return _Found(container=fewer, placement=placement)
    return None


def _less_memory(question: Query, container: ContainerRequest) -> tuple[float, Change] | None:
    if not container.is_share:
        return None
    asked = container.memory_units
    found = _most(question, 1, asked - 1, lambda units: replace(container, memory_units=units))
    if found is None:
        return None
    units = found.container.memory_units
    return units / asked, _change(question, Kind.LESS_MEMORY, found, _less(units, asked))


def _smaller_share(question: Query, container: ContainerRequest) -> tuple[float, Change] | None:
    """Lower both by the same part, then raise each again as far as it goes."""
    if not container.is_share:
        return None
    cores, memory = container.cores, container.memory_units
    steps = max(cores, memory)

    def part(step: int) -> ContainerRequest:
        return replace(
            container,
            cores=max(1, cores * step // steps),
            memory_units=max(1, memory * step // steps),
        )

    found = _most(question, 1, steps - 1, part)
    if found is None:
        return None
    low = found.container
    found = _most(question, low.cores, cores, lambda each: replace(low, cores=each)) or found
    wide = found.container
    found = (
        _most(question, low.memory_units, memory, lambda each: replace(wide, memory_units=each))
        or found
    )
    now = found.container
    what = f"{now.cores} instead of {cores} cores and {_less(now.memory_units, memory)}"
    left = min(now.cores / cores, now.memory_units / memory)
    return left, _change(question, Kind.SMALLER_SHARE, found, what)


def _less(units: int, asked: int) -> str:
    sizes = f"{size_text(units)} instead of {size_text(asked)}"
    return f"{units} instead of {asked} memory units ({sizes})"


def _most(
    question: Query, low: int, high: int, asking: Callable[[int], ContainerRequest]
) -> _Found | None:
    """Return the container with the largest figure that fits."""

    def ask(node: Node, figure: int) -> Placement | None:
        return question.fits(node, with_container(question.request, asking(figure)))

    found = largest(question.kinds, low, high, ask)
    return None if found is None else _Found(container=asking(found[0]), placement=found[1])


def _change(question: Query, kind: Kind, found: _Found, what: str) -> Change:
    return Change(
        kind=kind,
        text=f"container {found.container.name!r} asks {what}",
        request=with_container(question.request, found.container),
        placement=found.placement,
        container=found.container.name,
    )
