"""A snapshot as the model's cluster: each pod read once, every error with file and place.

Who asks about a cluster at night must not be blinded by one node: then a node that describes no
machine counts as one without cards, as the extender takes it. Who plans with a file wants it whole.
"""

import sys
from collections.abc import Iterator

from gpustack.cli.source import Snapshot, SourceError
from gpustack.model.cluster import Cluster, Tenant, settle
from gpustack.model.device import Node
from gpustack.model.quota import Quota
from gpustack.wire.annotations import BadAnnotation, Keys
from gpustack.wire.nodes import decode_node
from gpustack.wire.pods import holding
from gpustack.wire.quota import BadQuota, decode_quota


def read(keys: Keys, snapshot: Snapshot) -> Cluster:
    """Return nodes, tenants and quota.

    Raises:
        SourceError: a node describes no machine, or the quota is none; names the place.
    """
    problems = unread(keys, snapshot)
    if problems:
        raise problems[0]
    return read_what_can_be(keys, snapshot)


def read_what_can_be(keys: Keys, snapshot: Snapshot) -> Cluster:
    """Return the same, with a node that describes no machine as one without cards.

    Raises:
        SourceError: the quota is none; names the place.
    """
    return settle(_nodes(keys, snapshot), _tenants(keys, snapshot), _quota(snapshot))


def unread(keys: Keys, snapshot: Snapshot) -> list[SourceError]:
    """Return what is wrong with the nodes that describe no machine."""
    problems = []
    for item in snapshot.nodes:
        try:
            decode_node(keys, item)
        except BadAnnotation as error:
            problems.append(snapshot.error(item, error))
    return problems


def tell_unread(keys: Keys, snapshot: Snapshot) -> bool:
    """Print what is wrong with such nodes to stderr; return whether there was anything."""
    problems = unread(keys, snapshot)
    for problem in problems:
        print(f"gpustack: {problem}", file=sys.stderr)
    return bool(problems)


def _nodes(keys: Keys, snapshot: Snapshot) -> Iterator[Node]:
    for item in snapshot.nodes:
        try:
            yield decode_node(keys, item)
        except BadAnnotation:  # `unread` tells it
            yield Node(name=item["metadata"]["name"])


def _tenants(keys: Keys, snapshot: Snapshot) -> Iterator[Tenant]:
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
        raise snapshot.error(snapshot.quota or {}, error) from error
