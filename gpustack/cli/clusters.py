"""A snapshot as the model's cluster: each pod read once, every error with its file and place."""

from collections.abc import Iterator

from gpustack.cli.source import Snapshot
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
    return settle(_nodes(keys, snapshot), _tenants(keys, snapshot), _quota(snapshot))


def _nodes(keys: Keys, snapshot: Snapshot) -> Iterator[Node]:
    for item in snapshot.nodes:
        try:
            yield decode_node(keys, item)
        except BadAnnotation as error:
            raise snapshot.error(item, error) from error


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
