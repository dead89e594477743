"""``gpustack what-if``: more pods, more nodes, one node less, on a copy of the cluster."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpustack.cli import clusters, inputs, options, printing, what_if_views
from gpustack.cli.source import Snapshot
from gpustack.cli.what_if_views import Asked
from gpustack.model import whatif
from gpustack.model.cluster import Cluster
from gpustack.model.fragmentation import Workload, workload_of
from gpustack.model.policies import EXACT, NAMES, Policy, named
from gpustack.wire.annotations import Keys
from gpustack.wire.pods import holding, parse_request


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("what-if", help="more pods, more nodes, or one less: what then")
    parser.add_argument("--pod", metavar="FILE", help="a Pod, or anything with a pod template")
    parser.add_argument("--count", type=inputs.positive, metavar="N", help="copies; default: 1")
    parser.add_argument("--capacity", action="store_true", help="how many more fit")
    parser.add_argument("--policy", choices=NAMES, default=EXACT.name, help="default: %(default)s")
    parser.add_argument(
        "--workload", metavar="CSV", help="what fgd measures by: a trace; default: all pods here"
    )
    parser.add_argument("--drain", metavar="NODE", help="place its pods elsewhere first")
    parser.add_argument("--add-nodes", type=inputs.positive, metavar="N", help="before all else")
    parser.add_argument("--like", metavar="NODE", help="whose hardware the new nodes have")
    options.add_reading(parser)
    parser.set_defaults(parser=parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print where the pods go; 1 when one of them has no place."""
    _check(chosen)
    question = _ask(chosen)
    if chosen.capacity:
        pod = question.pods[0].pod
        rooms = whatif.capacity(question.cluster, pod, question.policy)
        views = what_if_views.room_rows(rooms), what_if_views.room_json(pod, rooms)
        printing.show(chosen.output, *views)
        return 0 if any(rooms.values()) else 1
    plan = whatif.plan(question.cluster, [each.pod for each in question.pods], question.policy)
    names = {each.pod: each.containers for each in question.pods}
    tables = what_if_views.plan_tables(plan)
    printing.show_all(chosen.output, tables, what_if_views.plan_json(plan, names))
    return 1 if plan.unplaced else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    cluster: Cluster
    pods: tuple[Asked, ...]
    policy: Policy


def _check(chosen: argparse.Namespace) -> None:
    """End with status 2 and the usage where the options make no question."""
    problem = ""
    if chosen.pod is None and (chosen.drain is None or chosen.capacity):
        problem = "--pod is needed, unless --drain alone is asked"
    elif chosen.pod is None and chosen.count is not None:
        problem = "--count says how many of --pod; there is none"
    elif chosen.capacity and chosen.count is not None:
        problem = "--capacity finds the count; leave --count away"
    elif chosen.capacity and chosen.drain is not None:
        problem = "--capacity and --drain are two questions; ask them one by one"
    elif (chosen.add_nodes is None) != (chosen.like is None):
        problem = "--add-nodes N and --like NODE go together"
    elif chosen.workload is not None and chosen.policy != "fgd":
        problem = "--workload is for --policy fgd"
    if problem:
        chosen.parser.error(problem)


def _ask(chosen: argparse.Namespace) -> _Question:
    """Read everything.

    Raises:
        GpustackError: an input is unreadable, or a node isn't there; names file and place.
    """
    keys = Keys(chosen.domain)
    snapshot = options.read(chosen)
    cluster = clusters.read(keys, snapshot)
    drained: tuple[Asked, ...] = ()
    workload = _workload(chosen, cluster)
    if chosen.add_nodes is not None:
        cluster = whatif.with_more(cluster, chosen.like, chosen.add_nodes)
    if chosen.drain is not None:
        cluster = whatif.without_node(cluster, chosen.drain)
        drained = tuple(_tenants(keys, snapshot, chosen.drain))
    copies = _copies(keys, chosen)
    if chosen.policy == "fgd" and chosen.workload is None:
        tenants = ((tenant.placement, 1) for tenant in cluster.tenants)
        asked = ((each.pod.request, 1) for each in (*drained, *copies))
        workload = workload_of((*tenants, *asked))
    policy = named(chosen.policy, workload)
    return _Question(cluster=cluster, pods=(*drained, *copies), policy=policy)


def _workload(chosen: argparse.Namespace, cluster: Cluster) -> Workload:
    if chosen.workload is None:
        return workload_of(())
    trace = inputs.trace(chosen.workload, cluster.nodes.values())
    return workload_of((each.request, each.count) for each in trace)


def _tenants(keys: Keys, snapshot: Snapshot, node: str) -> list[Asked]:
    found = []
    for item in snapshot.pods:
        held = holding(keys, item)
        request = None if held is None else parse_request(keys, item)
        if held is not None and request is not None and held.decision.node == node:
            pod = whatif.Pod(namespace=held.namespace, name=held.name, request=request)
            found.append(Asked(pod=pod, containers=_containers(item)))
    by_title = {each.pod.title: each for each in found}
    return [by_title[pod.title] for pod in whatif.in_order_of_demand(each.pod for each in found)]


def _copies(keys: Keys, chosen: argparse.Namespace) -> list[Asked]:
    if chosen.pod is None:
        return []
    item, request = inputs.pod(keys, chosen.pod)
    count = chosen.count or 1
    metadata = item["metadata"]
    return [
        Asked(
            pod=whatif.Pod(
                namespace=metadata["namespace"],
                name=metadata["name"] if count == 1 else f"{metadata['name']}-{number}",
                request=request,
            ),
            containers=_containers(item),
        )
        for number in range(1, count + 1)
    ]


def _containers(pod: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(each.get("name", "")) for each in pod["spec"].get("containers") or ())
