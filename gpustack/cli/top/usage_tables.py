"""Usage of nodes as lists: by node, card, pod or namespace, the busiest first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpustack.cli.output.printing import Alarm
from gpustack.cli.top.node_use import MeasuredCard, MeasuredContainer, MeasuredNode
from gpustack.model.units import CORES_PER_CARD

_GIB: Final = 1 << 30
_SHARE: Final = (
    "USED(cards)", "GUARANTEED(cards)", "USED(%)", "MEMORY(GiB)", "LIMIT(GiB)", "MEMORY(%)",
)  # fmt: skip
_CARDS: Final = (
    "BUSY(cards)", "GUARANTEED(cards)", "MEMORY(GiB)", "GUARANTEED(GiB)", "TOTAL(GiB)",
)  # fmt: skip


_Item = tuple[Mapping[str, Any], tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageList:
    """One list: the columns of its table, and its items, each as values and as a row."""

    head: tuple[str, ...]
    items: Sequence[_Item]


def _nodes(found: Iterable[MeasuredNode]) -> UsageList:
    items: list[_Item] = []
    for node in found:
        unhealthy = sum(not card.healthy for card in node.cards)
        value = {
            "node": node.node,
            "cards": len(node.cards),
            "unhealthy_cards": unhealthy,
            "containers": len(node.containers),
            **_of_cards(node.cards),
        }
        row = (
            node.node,
            len(node.cards),
            Alarm(unhealthy) if unhealthy else 0,
            len(node.containers),
            *_cards_cells(value),
        )
        items.append((value, row))
    return _sorted(("NODE", "CARDS", "UNHEALTHY", "CONTAINERS", *_CARDS), items, "busy_cores")


def _cards(found: Iterable[MeasuredNode]) -> UsageList:
    items: list[_Item] = []
    for node in found:
        for card in node.cards:
            value = {
                "node": node.node,
                "minor": card.minor,
                "healthy": card.healthy,
                **_of_cards((card,)),
            }
            row = (
                node.node,
                card.minor,
                "yes" if card.healthy else Alarm("no"),
                *_cards_cells(value),
            )
            items.append((value, row))
    return _sorted(("NODE", "CARD", "HEALTHY", *_CARDS), items, "busy_cores")


def _pods(found: Iterable[MeasuredNode]) -> UsageList:
    items: list[_Item] = []
    for node in found:
        for (namespace, pod), containers in _by(
            node.containers, lambda each: (each.namespace, each.pod)
        ):
            value = {
                "namespace": namespace,
                "pod": pod,
                "node": node.node,
                **_of_containers(containers),
            }
            items.append((value, (f"{namespace}/{pod}", node.node, *_share_cells(value))))
    return _sorted(("POD", "NODE", *_SHARE), items, "used_cores")


def _namespaces(found: Iterable[MeasuredNode]) -> UsageList:
    everything = [each for node in found for each in node.containers]
    items: list[_Item] = []
    for namespace, containers in _by(everything, lambda each: each.namespace):
        pods = len({each.pod for each in containers})
        value = {"namespace": namespace, "pods": pods, **_of_containers(containers)}
        items.append((value, (namespace, pods, *_share_cells(value))))
    return _sorted(("NAMESPACE", "PODS", *_SHARE), items, "used_cores")


KINDS: Final[Mapping[str, Callable[[Iterable[MeasuredNode]], UsageList]]] = {
    "nodes": _nodes,
    "cards": _cards,
    "pods": _pods,
    "namespaces": _namespaces,
}
"""What may be listed, and how."""


def of_namespace(found: MeasuredNode, namespace: str) -> MeasuredNode:
    """Return a node with the containers of one namespace."""
    containers = tuple(each for each in found.containers if each.namespace == namespace)
    return MeasuredNode(node=found.node, cards=found.cards, containers=containers)


def _of_cards(cards: Sequence[MeasuredCard]) -> dict[str, float | int | None]:
    """Return the sums; None where no card says how much it is used."""
    busy = [card.busy_cores for card in cards if card.busy_cores is not None]
    used = [card.used_memory for card in cards if card.used_memory is not None]
    return {
        "busy_cores": round(sum(busy), 2) if busy else None,
        "guaranteed_cores": round(sum(card.given_cores for card in cards), 2),
        "used_memory_bytes": sum(used) if used else None,
        "guaranteed_memory_bytes": sum(card.given_memory for card in cards),
        "memory_bytes": sum(card.memory for card in cards),
    }


def _of_containers(containers: Sequence[MeasuredContainer]) -> dict[str, float | int]:
    return {
        "used_cores": round(sum(each.used_cores for each in containers), 2),
        "guaranteed_cores": round(sum(each.guaranteed_cores for each in containers), 2),
        "used_memory_bytes": sum(each.used_memory for each in containers),
        "guaranteed_memory_bytes": sum(each.guaranteed_memory for each in containers),
    }


def _cards_cells(value: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        _in_cards(value["busy_cores"]),
        _in_cards(value["guaranteed_cores"]),
        _gib(value["used_memory_bytes"]),
        _gib(value["guaranteed_memory_bytes"]),
        _gib(value["memory_bytes"]),
    )


def _share_cells(value: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        _in_cards(value["used_cores"]),
        _in_cards(value["guaranteed_cores"]),
        _percent(value["used_cores"], value["guaranteed_cores"]),
        _gib(value["used_memory_bytes"]),
        _gib(value["guaranteed_memory_bytes"]),
        _percent(value["used_memory_bytes"], value["guaranteed_memory_bytes"]),
    )


def _in_cards(cores: float | None) -> str:
    return "-" if cores is None else f"{cores / CORES_PER_CARD:.2f}"


def _gib(size: float | None) -> str:
    return "-" if size is None else f"{size / _GIB:.1f}"


def _percent(used: float, guaranteed: float) -> str:
    """Return a part of a guarantee; nothing of a container that has none."""
    return f"{100 * used / guaranteed:.0f}" if guaranteed else "-"


def _sorted(head: tuple[str, ...], items: list[_Item], by: str) -> UsageList:
    """Return the list, the largest first; equal ones by their names."""
    items.sort(key=lambda item: (-(item[0][by] or 0.0), *map(str, item[1])))
    return UsageList(head=head, items=items)


def _by(
    containers: Iterable[MeasuredContainer], key: Callable[[MeasuredContainer], Any]
) -> Iterator[tuple[Any, list[MeasuredContainer]]]:
    groups: dict[Any, list[MeasuredContainer]] = {}
    for each in containers:
        groups.setdefault(key(each), []).append(each)
    yield from groups.items()
