"""The output of ``what-if``: tables for people, and JSON as its schemas say."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from gpustack.cli.output.cards_cell import cards_cell
from gpustack.cli.output.printing import Alarm
from gpustack.cli.plan import drains
from gpustack.cli.plan.drains import Drain
from gpustack.model.cluster.cluster import Pod
from gpustack.model.cluster.what_if import Plan, Unplaced
from gpustack.model.placement import ContainerPlacement, Placement
from gpustack.model.refusal import Refusal
from gpustack.model.request import ContainerKind
from gpustack.wire import explanations

Table = list[Sequence[object]]


def plan_tables(plan: Plan, drain: Drain) -> list[Table]:
    """Return a line a placed pod, one for each run of pods with the same reasons, and the rest.

    The rest are the pods that a drain leaves where they are.
    """
    placed: Table = [("POD", "NODE", "CARDS")]
    for each in plan.placed:
        placed.append((each.pod.title, each.placement.node, cards_cell(each.placement)))
    tables = [placed] if plan.placed else []
    if plan.unplaced:
        table: Table = [("UNPLACED", "PODS", "WHY")]
        for _, run in groupby(plan.unplaced, key=lambda each: id(each.refusals)):
            table.append(_together(list(run)))
        tables.append(table)
    return [*tables, *drains.rows(drain)]


def plan_json(plan: Plan, containers: Mapping[Pod, Iterable[str]]) -> dict[str, Any]:
    """Return the answer as the schema ``what-if`` has it.

    Args:
        plan: the place of each pod, or the reasons why it has none.
        containers: the names of each pod's containers.
    """
    # Like pods share their reasons, so a thousand nodes' reasons are held once.
    reasons = {
        id(each.refusals): {name: _refusal(why) for name, why in each.refusals.items()}
        for each in {id(each.refusals): each for each in plan.unplaced}.values()
    }
    return {
        "placements": [
            {
                "pod": each.pod.title,
                "node": each.placement.node,
                "containers": _containers(each.placement, containers[each.pod]),
                **_init_containers(each.placement),
                **explanations.gap(each.placement),
            }
            for each in plan.placed
        ],
        "unplaced": [
            {"pod": each.pod.title, "nodes": reasons[id(each.refusals)]} for each in plan.unplaced
        ],
    }


def room_rows(rooms: Mapping[str, int]) -> Table:
    """Return a line a node, and the sum."""
    table: Table = [("NODE", "MORE(pods)")]
    table.extend(rooms.items())
    return [*table, ("TOTAL", sum(rooms.values()))]


def room_json(pod: Pod, rooms: Mapping[str, int]) -> dict[str, Any]:
    """Return the answer as the schema ``what-if-capacity`` has it."""
    return {"pod": pod.title, "capacity": sum(rooms.values()), "nodes": dict(rooms)}


def _containers(placement: Placement, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return an entry for each of `spec.containers`."""
    apps = {each.index: each for each in placement.containers if each.kind is ContainerKind.APP}
    return [
        _container(apps[index]) if index in apps else {"name": name, "minors": [], "uuids": []}
        for index, name in enumerate(names)
    ]


def _init_containers(placement: Placement) -> dict[str, Any]:
    """Return the init containers that hold cards; nothing where none does."""
    init = [each for each in placement.containers if each.kind is not ContainerKind.APP]
    entries = [_container(each) for each in sorted(init, key=lambda each: each.index)]
    return {"initContainers": entries} if entries else {}


def _container(placed: ContainerPlacement) -> dict[str, Any]:
    return {"name": placed.name, "minors": list(placed.minors), "uuids": list(placed.uuids)}


def _refusal(refusal: Refusal) -> dict[str, str]:
    return {"code": str(refusal.reason), "message": refusal.detail or refusal.message}


def _together(run: list[Unplaced]) -> tuple[str, int, str]:
    """Return one line for pods that have the same reasons on every node."""
    first, last = run[0].pod.title, run[-1].pod.title
    counts = Counter(str(each.reason) for each in run[0].refusals.values())
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    why = ", ".join(f"{code} on {count} node{'s' * (count > 1)}" for code, count in most)
    title = first if first == last else f"{first} .. {last}"
    return Alarm(title), len(run), why or "no node is left"
