"""``gpustack explain POD``: why a pod waits and what would let it run, or why it is where it is."""

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpustack.cli import clusters, offered_names, options
from gpustack.cli.output import explanation_table, printing
from gpustack.cli.output.explanation_table import PodExplanation
from gpustack.model.cluster.cluster import Cluster, Pod
from gpustack.model.cluster.eligibility import Demands
from gpustack.model.explain import alternatives, explanation
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT, NAMES, Policy, named
from gpustack.model.policies.fragmentation import workload_of
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire import explanations
from gpustack.wire.files.snapshots import Snapshot
from gpustack.wire.files.source import SourceError
from gpustack.wire.keys import Keys
from gpustack.wire.kube.eligibility import parse_demands
from gpustack.wire.pods import finished, is_bound, parse_held_limits, parse_readable

_DEFAULT_NAMESPACE = "default"


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser(
        "explain",
        help="why a pod waits and what would let it run, or why it is where it is",
        epilog="exit status: 0 it holds cards or some node has room, 1 no, 2 no such GPU pod;"
        " `gpustack help CODE` says what to do about a reason",
    )
    pod = parser.add_argument("pod", metavar="[NAMESPACE/]POD")
    offered_names.offer(pod, offered_names.pods)
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help=f"default: the context's, or else {_DEFAULT_NAMESPACE}",
    )
    parser.add_argument(
        "--policy",
        choices=NAMES,
        default=EXACT.name,
        help="how nodes and cards are chosen; default: %(default)s",
    )
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the model's answer for one pod; 1 when no node has room for it."""
    keys, snapshot = Keys(chosen.domain), options.read(chosen)
    pod = _find(snapshot, chosen.pod, chosen.namespace)
    answer = explain(keys, snapshot, pod, chosen.policy)
    clusters.tell_unread(keys, snapshot)
    printing.show_all(
        chosen.output, explanation_table.tables(answer), explanation_table.as_json(answer)
    )
    return 0 if answer.fits else 1


def explain(
    keys: Keys, snapshot: Snapshot, pod: Mapping[str, Any], policy: str = EXACT.name
) -> PodExplanation:
    """Ask the model about one pod of the snapshot.

    Raises:
        SourceError: it asks for no GPU or for an impossible amount, it has ended, or the snapshot
            has a broken quota; names the place.
    """
    request, demands, ignored = _asked(keys, snapshot, pod)
    cluster = clusters.read_what_can_be(keys, snapshot)
    namespace, short = _namespace(pod), pod["metadata"]["name"]
    answer = PodExplanation(pod=f"{namespace}/{short}", namespace=namespace, cluster=cluster)
    said = clusters.violations_of(pod, clusters.violations(keys, snapshot))
    notes = (*_notes(pod, ignored), *map(explanations.violation, said))
    answer = replace(answer, notes=notes)
    by = _policy(policy, cluster, answer, request)
    for tenant in cluster.tenants:
        if (tenant.namespace or _DEFAULT_NAMESPACE, tenant.name) == (namespace, short):
            if tenant.placement.node not in cluster.nodes:
                gone = f"node {tenant.placement.node} is not known here: nothing to compare with"
                return replace(answer, held=tenant, notes=(*answer.notes, gone))
            standing = alternatives.why(cluster, tenant, request, demands, by)
            return replace(answer, held=tenant, standing=standing)
    problem = clusters.undecided(keys, pod, request)
    if problem:
        answer = replace(answer, notes=(*answer.notes, problem))
    if (pod.get("spec") or {}).get("nodeName"):
        return answer
    pending = Pod(namespace=namespace, name=short, request=request, demands=demands)
    waiting = explanation.explain(cluster, pending, by)
    notes = (*answer.notes, explanations.ROOM) if waiting.fits else answer.notes
    return replace(answer, waiting=waiting, notes=notes)


def _policy(name: str, cluster: Cluster, answer: PodExplanation, request: PodRequest) -> Policy:
    """Return the policy; `fgd` measures by the requests of the cluster's pods, and this one's."""
    asked: list[PodRequest | Placement] = [request]
    asked.extend(each.placement for each in cluster.tenants if each.title != answer.pod)
    return named(name, workload_of((each, 1) for each in asked))


def _asked(
    keys: Keys, snapshot: Snapshot, pod: Mapping[str, Any]
) -> tuple[PodRequest, Demands, tuple[BadRequest, ...]]:
    try:
        (request, problems), demands = _requested(keys, pod), parse_demands(pod)
        if problems and not is_bound(pod):
            raise problems[0]
    except BadRequest as error:
        raise snapshot.error(pod, error) from error
    if request is None:
        raise snapshot.error(pod, f"asks for no GPU: no limit names {keys.vcuda_core}")
    if finished(pod):
        raise snapshot.error(pod, f"has ended ({pod['status']['phase']}) and holds nothing")
    return request, demands, problems


def _requested(
    keys: Keys, pod: Mapping[str, Any]
) -> tuple[PodRequest | None, tuple[BadRequest, ...]]:
    """Return what a pod asks, of a bound one else what it may hold, and what is wrong."""
    try:
        return parse_readable(keys, pod)
    except BadRequest as error:
        held = parse_held_limits(keys, pod) if is_bound(pod) else None
        if held is None:
            raise
        return held, (error,)


def _notes(pod: Mapping[str, Any], ignored: Iterable[BadRequest]) -> list[str]:
    since = pod["metadata"].get("deletionTimestamp")
    notes = [f"it is being deleted since {since}"] if since else []
    return [*notes, *(explanations.ignored(each.message) for each in ignored)]


def _namespace(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("namespace") or _DEFAULT_NAMESPACE)


def _find(snapshot: Snapshot, name: str, namespace: str | None) -> Mapping[str, Any]:
    """Return the pod of this name.

    Raises:
        SourceError: there is none; names the namespaces that have one.
    """
    before, slash, short = name.rpartition("/")
    if slash and namespace not in {None, before}:
        raise SourceError(f"{name} is in namespace {before}, but -n says {namespace}")
    wanted = before if slash else namespace or snapshot.namespace
    alike = [pod for pod in snapshot.pods if pod["metadata"]["name"] == short]
    for pod in alike:
        if _namespace(pod) == wanted:
            return pod
    others = ", ".join(sorted(f"{_namespace(pod)}/{short}" for pod in alike)[:3])
    hint = f"; there is {others}" if others else "; write NAMESPACE/NAME"
    raise SourceError(f"{snapshot.origin}: no pod {wanted}/{short}{hint}")
