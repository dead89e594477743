"""The cluster as it is, for people: copied from the cache in portions, looked at without its lock.

Nothing here decides. Decisions are made on the cache itself, under its lock; a look at the cluster,
or a search for what would let a pod run, must not delay them. So two nodes may be seen some
milliseconds apart, and a pod that moves meanwhile on both or on none; each node agrees with what is
held of it.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.portions import portions
from gpustack.model.cluster.cluster import Cluster, Pod, Tenant
from gpustack.model.cluster.eligibility import Host
from gpustack.model.explain import alternatives, explanation
from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.policies import Policy
from gpustack.model.refusal import Reason, Refusal
from gpustack.wire import explanations, violations
from gpustack.wire.violations import ShareViolation

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """What there was at that moment.

    Attributes:
        cluster: nodes, tenants and quota, as the model has them.
        holders: what the tenants of each node hold, by UID; of nodes that are gone, too.
        pods: the pods that ask for a GPU and haven't ended, by UID.
        quotas: what the namespaces may hold and hold, as `wire.explanations` has it.
        policy: in which order nodes and cards are tried.
        texts: what the agents of nodes say of their containers, as they wrote it, by node.
    """

    cluster: Cluster
    holders: Mapping[str, Mapping[str, Placement]]
    pods: Mapping[str, PodState]
    quotas: Sequence[Mapping[str, Any]]
    policy: Policy
    texts: Mapping[str, str]

    def named(self, namespace: str, name: str) -> PodState | None:
        """Return a pod by its name; of two, that which isn't being deleted."""
        found = (p for p in self.pods.values() if p.name == name and p.namespace == namespace)
        return min(found, key=lambda pod: (pod.deletion, -pod.version), default=None)

    def tenant(self, uid: str) -> Tenant | None:
        """Return what a pod holds."""
        return next((each for each in self.cluster.tenants if each.uid == uid), None)

    def violations(self, node: str) -> tuple[ShareViolation, ...]:
        """Return what a node says of its containers; one that can't be read says nothing."""
        try:
            return violations.decode(self.texts.get(node, ""))
        except violations.BadViolations as error:
            logger.warning("node's violations are left out node=%s error=%s", node, error)
            return ()

    @property
    def waiting(self) -> list[PodState]:
        """The pods that hold no card, by name."""
        held = {tenant.uid for tenant in self.cluster.tenants}
        found = (p for p in self.pods.values() if p.waits and p.uid not in held)
        return sorted(found, key=lambda pod: (pod.namespace, pod.name, pod.uid))


@dataclass
class Snapshotter:
    """Takes snapshots."""

    cache: ClusterCache
    evaluator: NodeEvaluator

    def take(self, guest: PodState | None = None) -> ClusterSnapshot:
        """Return the cluster of now; as ``guest`` finds it, where pods go before it."""
        cache = self.cache
        nodes: dict[str, Node] = {}
        holders: dict[str, Mapping[str, Placement]] = {}
        hosts: dict[str, Host] = {}
        texts: dict[str, str] = {}
        cache.expire()
        for names in portions(sorted(cache.node_names)):
            with cache.lock:  # a node and what its pods hold, of one moment
                found = [node for name in names if (node := cache.node(name)) is not None]
                nodes |= {node.name: node for node in found}
                hosts |= {node.name: cache.host(node.name) for node in found}
                holders |= {node.name: cache.holders(node.name) for node in found}
                texts |= {each: text for each in names if (text := cache.violations(each))}
        with cache.lock:  # they are few
            lost = cache.allocations.lost_nodes
            holders |= {name: cache.holders(name) for name in lost - nodes.keys()}
        known, quota, policy = cache.pods, cache.quota, self.evaluator.policy
        if guest is not None:
            for name, (node, held) in self._promised(guest, nodes).items():
                nodes[name], holders[name] = node, held
        quotas = [
            each
            for namespace in sorted(quota.namespaces)
            for each in explanations.quotas(quota, cache.usage_of(namespace), (namespace,))
        ]
        pods = {pod.uid: pod for pod in known if pod.ours and not pod.finished}
        tenants = (
            Tenant(uid=uid, namespace=pods[uid].namespace, name=pods[uid].name, placement=placement)
            for held in holders.values()
            for uid, placement in held.items()
            if uid in pods
        )
        cluster = Cluster(
            nodes=MappingProxyType(nodes),
            tenants=tuple(tenants),
            quota=quota,
            hosts=MappingProxyType(hosts),
            claims=cache.claims,
        )
        return ClusterSnapshot(
            cluster=cluster,
            holders=holders,
            pods=pods,
            quotas=quotas,
            policy=policy,
            texts=texts,
        )

    def _promised(
        self, guest: PodState, nodes: Collection[str]
    ) -> dict[str, tuple[Node, Mapping[str, Placement]]]:
        """Return the nodes where the scheduler makes room for pods that go before the guest."""
        if guest.request is None or self.cache.placement(guest.uid) is not None:
            return {}
        nominated = (name for name in self.cache.nominated_nodes if name in nodes)
        names = (name for name in nominated if self.cache.nominees_before(guest, name))
        look = self.evaluator.node_and_holders
        return {name: found for name in names if (found := look(guest, name)) is not None}


class SearchTakesTooLong(Exception):
    """What would let a pod run isn't found in the time for it."""


def advise(
    snapshot: ClusterSnapshot,
    pod: PodState,
    *,
    seconds: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> explanation.Explanation:
    """Say why a pod waits, node by node, and what would let it run; costs a search.

    Raises:
        SearchTakesTooLong: it isn't over within these seconds by ``clock``.
    """
    if pod.request is None:
        message = pod.problem.message if pod.problem is not None else ""
        refusal = Refusal(reason=Reason.BAD_REQUEST, detail=message)
        answers = dict.fromkeys(sorted(snapshot.cluster.nodes), refusal)
        return explanation.Explanation(answers=answers)
    pending = Pod(namespace=pod.namespace, name=pod.name, request=pod.request, demands=pod.demands)
    others = tuple(each for each in snapshot.cluster.claims if each.uid != pod.uid)
    cluster = replace(snapshot.cluster, claims=others)
    return explanation.explain(cluster, pending, snapshot.policy, _until(seconds, clock))


def standing(
    snapshot: ClusterSnapshot,
    pod: PodState,
    tenant: Tenant,
    *,
    seconds: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> alternatives.Standing | None:
    """Say why a pod is where it is; None where its node isn't known. Costs a search.

    Raises:
        SearchTakesTooLong: it isn't over within these seconds by ``clock``.
    """
    if pod.request is None or tenant.placement.node not in snapshot.cluster.nodes:
        return None
    go_on = _until(seconds, clock)
    return alternatives.why(
        snapshot.cluster, tenant, pod.request, pod.demands, snapshot.policy, go_on=go_on
    )


def _until(seconds: float, clock: Callable[[], float]) -> Callable[[], None]:
    """Return what ends a search after so many seconds."""
    until = clock() + seconds

    def go_on() -> None:
        if clock() > until:
            raise SearchTakesTooLong

    return go_on
