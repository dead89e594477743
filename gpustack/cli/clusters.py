"""A snapshot as the model's cluster: each pod read once, every error with file and place.

One unreadable node must not keep an operator from an answer about a cluster: there a node that
describes no machine counts as one without cards, as in the extender. A plan needs its file whole.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from gpustack.cli.output import printing
from gpustack.model.cluster.cluster import Cluster, Tenant, settle
from gpustack.model.cluster.eligibility import Host
from gpustack.model.node import Node
from gpustack.model.placement import lost
from gpustack.model.quota.quota import Quota
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire import explanations
from gpustack.wire.annotations import BadAnnotation, decode_decision
from gpustack.wire.files.snapshots import Snapshot
from gpustack.wire.files.source import SourceError
from gpustack.wire.keys import Keys
from gpustack.wire.kube.eligibility import agent_silent, parse_host
from gpustack.wire.nodes import decode_node
from gpustack.wire.pods import finished, holding, parse_held_limits, parse_limits
from gpustack.wire.quota import BadQuota, decode_quota
from gpustack.wire.violations import BadViolations, ShareViolation, decode, of_pod, text_of

_MEANWHILE: Final = (
    "until that is mended the extender goes by the last quota that it could read, and its page"
    " explains by it, or it refuses pods"
)


def read(keys: Keys, snapshot: Snapshot) -> Cluster:
    """Return nodes, tenants and quota; stderr names the pods that could not be counted.

    Raises:
        SourceError: a node describes no machine, or the quota is none; names the place.
    """
    problems = unread(keys, snapshot)
    if problems:
        raise problems[0]
    tell_unread(keys, snapshot)
    return read_what_can_be(keys, snapshot)


def read_what_can_be(keys: Keys, snapshot: Snapshot) -> Cluster:
    """Return the same, with a node that describes no machine as one without cards.

    Raises:
        SourceError: the quota is none; names the place.
    """
    cluster = settle(_nodes(keys, snapshot), tenants(keys, snapshot), _quota(snapshot))
    return replace(cluster, hosts=dict(_hosts(keys, snapshot, cluster)))


def _hosts(keys: Keys, snapshot: Snapshot, cluster: Cluster) -> Iterator[tuple[str, Host]]:
    for item in snapshot.nodes:
        name = item["metadata"]["name"]
        silent = agent_silent(keys, item, cluster.nodes[name])
        yield name, parse_host(item, silent=silent)


def unread(keys: Keys, snapshot: Snapshot) -> list[SourceError]:
    """Return the errors of the nodes that describe no machine."""
    problems = []
    for item in snapshot.nodes:
        try:
            decode_node(keys, item, snapshot.names.labels)
        except BadAnnotation as error:
            problems.append(snapshot.error(item, error))
    return problems


def uncounted(keys: Keys, snapshot: Snapshot) -> list[SourceError]:
    """Return why bound pods that ask for cards don't count, or not in full.

    Their cards are unknown, or the nodes here lack some of them.
    """
    return [snapshot.error(pod, problem) for pod, problem in uncounted_pods(keys, snapshot)]


def uncounted_pods(
    keys: Keys, snapshot: Snapshot
) -> Iterator[tuple[Mapping[str, Any], BadRequest | str]]:
    """Yield the same pods, each with what is wrong."""
    nodes = dict(_decoded(keys, snapshot))
    for pod in snapshot.pods:
        if finished(pod) or not (pod.get("spec") or {}).get("nodeName"):
            continue
        try:
            limits = parse_held_limits(keys, pod) or parse_limits(keys, pod)
        except BadRequest as error:
            yield pod, error
            continue
        if limits is None:
            continue
        problem = undecided(keys, pod, limits) or _lost(keys, pod, nodes)
        if problem:
            yield pod, problem


def undecided(keys: Keys, pod: Mapping[str, Any], request: PodRequest) -> str:
    """Say why a bound or decided pod holds no card; empty for one that waits."""
    try:
        decided = decode_decision(keys, pod, request)
    except BadAnnotation as error:
        return f"its decision counts for nothing: {error.message}"
    node = (pod.get("spec") or {}).get("nodeName")
    if decided is None and node:
        return explanations.undecided(node)
    return ""


def violations(keys: Keys, snapshot: Snapshot) -> dict[str, tuple[ShareViolation, ...]]:
    """Return what the agents say of their containers, by node; not what can't be read."""
    return {name: found for name, found in _said(keys, snapshot) if isinstance(found, tuple)}


def violations_of(
    pod: Mapping[str, Any], said: Mapping[str, Iterable[ShareViolation]]
) -> tuple[ShareViolation, ...]:
    """Return what the node that a pod is bound to says of it."""
    spec, uid = pod.get("spec") or {}, pod["metadata"].get("uid")
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    names = {each.get("name") for each in containers}
    return of_pod(said.get(spec.get("nodeName") or "", ()), uid or "", names)


def _said(
    keys: Keys, snapshot: Snapshot
) -> Iterator[tuple[str, tuple[ShareViolation, ...] | SourceError]]:
    """Yield names of nodes, and what each says of its containers, or why that can't be read."""
    for item in snapshot.nodes:
        found: tuple[ShareViolation, ...] | SourceError
        try:
            found = decode(text_of(keys, item))
        except BadViolations as error:
            found = snapshot.error(item, f"{error}; they are left out")
        yield item["metadata"]["name"], found


def _lost(keys: Keys, pod: Mapping[str, Any], nodes: Mapping[str, Node | None]) -> str:
    """Say which of a bound pod's cards no node here has; empty where all are there."""
    held = holding(keys, pod)
    if held is None:
        return ""
    name = held.decision.node
    if name not in nodes:
        return f"it holds cards of node {name}, which is not known here"
    node = nodes[name]
    if node is None:
        return ""  # the node can't be read; its own message says so
    minors = ", ".join(map(str, lost(node, held.decision.placement)))
    return f"it holds card {minors}, and node {name} has no such card" if minors else ""


def tell_unread(keys: Keys, snapshot: Snapshot) -> bool:
    """Print to stderr the nodes and pods that could not be counted; return whether any was.

    Violations that can't be read are named, too; they count for nothing.
    """
    problems = [*unread(keys, snapshot), *uncounted(keys, snapshot)]
    unheard = [found for _, found in _said(keys, snapshot) if isinstance(found, SourceError)]
    for problem in (*problems, *unheard):
        printing.tell(problem)
    return bool(problems)


def _nodes(keys: Keys, snapshot: Snapshot) -> Iterator[Node]:
    for name, node in _decoded(keys, snapshot):
        yield Node(name=name) if node is None else node


def _decoded(keys: Keys, snapshot: Snapshot) -> Iterator[tuple[str, Node | None]]:
    """Yield names and nodes; None for one that describes no machine: `unread` has its error."""
    for item in snapshot.nodes:
        try:
            node = decode_node(keys, item, snapshot.names.labels)
        except BadAnnotation:
            node = None
        yield item["metadata"]["name"], node


def tenants(keys: Keys, snapshot: Snapshot) -> Iterator[Tenant]:
    """Yield the pods that hold cards."""
    for pod in snapshot.pods:
        held = holding(keys, pod)
        if held is not None:
            yield Tenant(
                uid=held.uid or f"{held.namespace}/{held.name}",
                namespace=held.namespace,
                name=held.name,
                placement=held.decision.placement,
            )


def _quota(snapshot: Snapshot) -> Quota:
    try:
        return decode_quota(snapshot.quota)
    except BadQuota as error:
        raise snapshot.error(snapshot.quota or {}, f"{error}; {_MEANWHILE}") from error


def without_bad_quota(snapshot: Snapshot) -> tuple[Snapshot, SourceError | None]:
    """Return the snapshot without its quota, and why, where that can't be read."""
    try:
        _quota(snapshot)
    except SourceError as error:
        return replace(snapshot, quota=None), error
    return snapshot, None
