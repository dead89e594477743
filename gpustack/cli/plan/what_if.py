"""``gpustack what-if``: more pods, more nodes, fewer nodes, on a copy of the cluster."""

import argparse
from dataclasses import dataclass, replace
from typing import Final

from gpustack.cli import clusters, offered_names, options
from gpustack.cli.output import plan_table, printing
from gpustack.cli.plan import drains, inputs
from gpustack.cli.plan.drains import Drain, DrainedPod
from gpustack.model.cluster import what_if
from gpustack.model.cluster.cluster import Cluster, Pod
from gpustack.model.policies import EXACT, NAMES, Policy, named
from gpustack.model.policies.fragmentation import Workload, workload_of
from gpustack.wire.keys import Keys

_LONG: Final = 1000  # pods; fewer are placed before a person expects progress
_MORE: Final = """\
Pods go where kube-scheduler would let them and our extender has cards: cordoned nodes, taints,
nodeSelector, required node affinity and scheduling gates count, and so does the GPU quota. Not
looked at: the CPU and memory of nodes, volumes, host ports, affinity between pods, preferences."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "what-if",
        help="more pods, more nodes, or fewer: what then",
        description=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_pods(parser)
    _add_nodes(parser)
    options.add_reading(parser)
    return parser


def _add_pods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pod",
        metavar="FILE",
        help="a Pod, or anything with a pod template, YAML or JSON; - is the standard input",
    )
    parser.add_argument("--count", type=options.positive, metavar="N", help="copies; default: 1")
    parser.add_argument("--capacity", action="store_true", help="how many more such pods fit")
    parser.add_argument(
        "--policy",
        choices=NAMES,
        default=EXACT.name,
        help="how nodes and cards are chosen; default: %(default)s",
    )
    parser.add_argument(
        "--workload", metavar="CSV", help="what fgd measures by: a trace; default: all pods here"
    )


def _add_nodes(parser: argparse.ArgumentParser) -> None:
    drain = parser.add_argument(
        "--drain",
        metavar="NODE[,NODE]",
        action="extend",
        type=inputs.names,
        help="take the nodes away and place their GPU pods elsewhere, before the copies; those of "
        "DaemonSets, and those that end anyway, stay. Several --drain are one drain of all",
    )
    parser.add_argument(
        "--add-nodes", type=options.positive, metavar="N", help="so many new nodes, before all else"
    )
    like = parser.add_argument(
        "--like", metavar="NODE", help="the node with the new nodes' hardware, labels and taints"
    )
    for each in (drain, like):
        offered_names.offer(each, offered_names.nodes)


def run(chosen: argparse.Namespace) -> int:
    """Print where the pods go; 1 when one of them has no place."""
    _check(chosen)
    question = _ask(chosen)
    if chosen.capacity:
        pod = question.pods[0].pod
        rooms = what_if.capacity(question.cluster, pod, question.policy)
        views = plan_table.room_rows(rooms), plan_table.room_json(pod, rooms)
        printing.show(chosen.output, *views)
        return 0 if any(rooms.values()) else 1
    pods = [each.pod for each in question.pods]
    told = printing.progress(chosen.policy) if len(pods) > _LONG else None
    plan = what_if.plan(question.cluster, pods, question.policy, told)
    plan = replace(plan, unplaced=(*plan.unplaced, *question.drain.refused))
    names = {each.pod: each.containers for each in question.pods}
    tables = plan_table.plan_tables(plan, question.drain)
    printing.show_all(chosen.output, tables, plan_table.plan_json(plan, names))
    return 1 if plan.unplaced else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    cluster: Cluster
    pods: tuple[DrainedPod, ...]
    policy: Policy
    drain: Drain


def _check(chosen: argparse.Namespace) -> None:
    """End with status 2 and the usage where the options make no question."""
    files = {"snapshot": chosen.snapshot, "pod": chosen.pod, "workload": chosen.workload}
    options.check_one_pipe(chosen.parser, **files)
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
    workload = _workload(chosen, cluster)
    if chosen.add_nodes is not None:
        cluster = what_if.with_more(cluster, chosen.like, chosen.add_nodes)
    names = tuple(dict.fromkeys(chosen.drain or ()))
    cluster = what_if.without_nodes(cluster, names)
    drain = drains.read(keys, snapshot, names, cluster.nodes)
    copies = _copies(keys, chosen)
    if chosen.policy == "fgd" and chosen.workload is None:
        tenants = ((tenant.placement, 1) for tenant in cluster.tenants)
        asked = ((each.pod.request, 1) for each in (*drain.moving, *copies))
        workload = workload_of((*tenants, *asked))
    policy = named(chosen.policy, workload)
    pods = (*drain.moving, *copies)
    return _Question(cluster=cluster, pods=pods, policy=policy, drain=drain)


def _workload(chosen: argparse.Namespace, cluster: Cluster) -> Workload:
    if chosen.workload is None:
        return workload_of(())
    trace = inputs.trace(chosen.workload, cluster.nodes.values())
    return workload_of((each.request, each.count) for each in trace)


def _copies(keys: Keys, chosen: argparse.Namespace) -> list[DrainedPod]:
    if chosen.pod is None:
        return []
    found = inputs.pod(keys, chosen.pod)
    count = chosen.count or 1
    return [
        DrainedPod(
            pod=Pod(
                namespace=found.namespace,
                name=found.name if count == 1 else f"{found.name}-{number}",
                request=found.request,
                demands=found.demands,
            ),
            containers=found.containers,
        )
        for number in range(1, count + 1)
    ]
