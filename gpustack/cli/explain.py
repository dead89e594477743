"""``gpustack explain POD``: why a pod waits and what would let it run, or why it is where it is."""

import argparse
from collections.abc import Mapping
from typing import Any

from gpustack.cli import clusters, explain_views, options, printing
from gpustack.cli.explain_views import Answer
from gpustack.cli.source import Snapshot, SourceError
from gpustack.model import advice, alternatives
from gpustack.model.cluster import Tenant
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire.annotations import Keys
from gpustack.wire.pods import finished, parse_request


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("explain", help="why a pod waits, or why it is where it is")
    parser.add_argument("pod", metavar="[NAMESPACE/]POD")
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the model's answer for one pod; 1 when no node has room for it."""
    keys, snapshot = Keys(chosen.domain), options.read(chosen)
    answer = explain(keys, snapshot, chosen.pod)
    clusters.tell_unread(keys, snapshot)
    printing.show_all(chosen.output, explain_views.tables(answer), explain_views.as_json(answer))
    return 0 if answer.fits else 1


def explain(keys: Keys, snapshot: Snapshot, name: str) -> Answer:
    """Ask the model about one pod.

    Args:
        keys: names of the domain.
        snapshot: nodes, pods and quota.
        name: ``namespace/name``, or a name in ``default``.

    Raises:
        SourceError: no such pod, it asks for no GPU or for what doesn't exist, it has ended, or
            the snapshot has a broken quota; names the place.
    """
    pod = _find(snapshot, name)
    request = _request(keys, snapshot, pod)
    cluster = clusters.read_what_can_be(keys, snapshot)
    namespace, short = _namespace(pod), pod["metadata"]["name"]
    answer = Answer(pod=f"{namespace}/{short}", namespace=namespace, cluster=cluster)
    for tenant in cluster.tenants:
        if (tenant.namespace or "default", tenant.name) == (namespace, short):
            return _running(answer, tenant, request)
    pending = advice.Pending(namespace=namespace, name=short, request=request)
    return Answer(
        pod=answer.pod,
        namespace=namespace,
        cluster=cluster,
        waiting=advice.explain(cluster, pending),
    )


def _running(answer: Answer, tenant: Tenant, request: PodRequest) -> Answer:
    there = tenant.placement.node in answer.cluster.nodes
    return Answer(
        pod=answer.pod,
        namespace=answer.namespace,
        cluster=answer.cluster,
        held=tenant,
        standing=alternatives.why(answer.cluster, tenant, request) if there else None,
    )


def _request(keys: Keys, snapshot: Snapshot, pod: Mapping[str, Any]) -> PodRequest:
    try:
        request = parse_request(keys, pod)
    except BadRequest as error:
        raise snapshot.error(pod, error) from error
    if request is None:
        raise snapshot.error(pod, f"asks for no GPU: no limit names {keys.vcuda_core}")
    if finished(pod):
        raise snapshot.error(pod, f"has ended ({pod['status']['phase']}) and holds nothing")
    return request


def _namespace(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("namespace") or "default")


def _find(snapshot: Snapshot, name: str) -> Mapping[str, Any]:
    namespace, slash, short = name.rpartition("/")
    wanted = (namespace if slash else "default", short)
    for pod in snapshot.pods:
        if (_namespace(pod), pod["metadata"]["name"]) == wanted:
            return pod
    raise SourceError(f"{snapshot.origin}: no pod {wanted[0]}/{wanted[1]}; write NAMESPACE/NAME")
