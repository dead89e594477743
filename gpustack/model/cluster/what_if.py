"""What if: more pods, more nodes, fewer nodes. Pure questions about a copy of the cluster."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gpustack.model.cluster.cluster import Cluster, Pod
from gpustack.model.cluster.eligibility import OPEN, Demands, in_service, refusals
from gpustack.model.cluster.simulator import Progress, Simulator
from gpustack.model.errors import GpustackError
from gpustack.model.frozen import FrozenMap, freeze
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement, Placer
from gpustack.model.policies import EXACT, Policy
from gpustack.model.refusal import Refusal
from gpustack.model.use import IDLE

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
"""Every node's own name, as the kubelet writes it."""


class NoSuchNode(GpustackError, ValueError):
    """A question about a node that isn't there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod that found its cards."""

    pod: Pod
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """A pod that didn't, with every node's reason by the node's name."""

    pod: Pod
    refusals: Mapping[str, Refusal]

    def __post_init__(self) -> None:
        freeze(self, "refusals")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What becomes of pods that arrive one after another.

    Attributes:
        placed: in the order of arrival.
        unplaced: likewise; with the reasons as they are when all others are placed.
        nodes: the nodes afterwards, by name.
    """

    placed: tuple[Placed, ...]
    unplaced: tuple[Unplaced, ...]
    nodes: tuple[Node, ...]


class _Planner:
    """A cluster that fills up pod by pod, within the quota and where nodes take the pod at all."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self._hosts = cluster.hosts
        self._barred: dict[Demands, Mapping[str, Refusal]] = {}
        self.fleet = Simulator(cluster.nodes.values(), policy, partial(place, policy=policy))
        self._quota = cluster.quota
        self._policy = policy
        self._usage = cluster.usage()
        self._placed = 0

    def limited(self, namespace: str) -> bool:
        """Say whether the namespace has a quota."""
        return self._quota.of(namespace) is not None

    def place(self, pod: Pod) -> Placement | None:
        """Take a pod's cards; None where it doesn't fit."""
        placer, barred = self._placer(pod.namespace), self.barred(pod.demands)
        found = self.fleet.place(pod.request, placer=placer, barred=barred)
        if found is not None and self.limited(pod.namespace):
            self._placed += 1
            uid = f"planned-{self._placed}"
            self._usage.put(uid, pod.namespace, pod.title, self.fleet.node(found.node), found)
        return found

    def refusals(self, pod: Pod) -> Mapping[str, Refusal]:
        """Return why each node refuses a pod: the scheduler's reasons first, as it asks first."""
        by_cards = self.fleet.refusals(pod.request, self._placer(pod.namespace))
        found = {**by_cards, **self.barred(pod.demands)}
        return FrozenMap({name: found[name] for name in sorted(found)})

    def barred(self, demands: Demands) -> Mapping[str, Refusal]:
        """Return why nodes don't take a pod whatever their cards, by name."""
        if demands not in self._barred:
            names = (node.name for node in self.fleet.nodes)
            self._barred[demands] = refusals(demands, names, self._hosts)
        return self._barred[demands]

    def _placer(self, namespace: str) -> Placer | None:
        if not self.limited(namespace):
            return None
        return within(self._quota, self._usage, namespace, self._policy)


def plan(
    cluster: Cluster,
    pods: Iterable[Pod],
    policy: Policy = EXACT,
    progress: Progress | None = None,
) -> Plan:
    """Place pods one after another; one that doesn't fit is left out and the next one tried.

    The cluster only fills up, so a pod like one that was refused isn't tried again.
    """
    planner = _Planner(cluster, policy)
    placed: list[Placed] = []
    refused: list[Pod] = []
    why: dict[object, Mapping[str, Refusal]] = {}
    several = tuple(pods)
    for number, pod in enumerate(several, start=1):
        asked = _alike(pod)
        found = None if asked in why else planner.place(pod)
        if found is None:
            why[asked] = {}
            refused.append(pod)
        else:
            placed.append(Placed(pod=pod, placement=found))
        if progress is not None:
            progress(number, len(several))
    for asked, pod in {_alike(each): each for each in refused}.items():
        why[asked] = planner.refusals(pod)
    return Plan(
        placed=tuple(placed),
        unplaced=tuple(Unplaced(pod=pod, refusals=why[_alike(pod)]) for pod in refused),
        nodes=planner.fleet.nodes,
    )


def _alike(pod: Pod) -> object:
    """Return what decides about a pod: two of which it is equal get the same answer."""
    return pod.namespace, pod.request, pod.demands


def capacity(cluster: Cluster, pod: Pod, policy: Policy = EXACT) -> Mapping[str, int]:
    """Return how many more such pods each node takes, placed one by one until none fits."""
    planner = _Planner(cluster, policy)
    if not planner.limited(pod.namespace):
        barred = planner.barred(pod.demands)
        room = planner.fleet.room(pod.request)
        return {name: 0 if name in barred else count for name, count in room.items()}
    counts = Counter({name: 0 for name in sorted(cluster.nodes)})
    while (found := planner.place(pod)) is not None:
        counts[found.node] += 1
    return dict(counts)


def without_nodes(cluster: Cluster, names: Collection[str]) -> Cluster:
    """Return the cluster after nodes and all pods on them are gone: the beginning of a drain.

    Raises:
        NoSuchNode: there is none of such a name.
    """
    _check(cluster, names)
    nodes = {each: node for each, node in cluster.nodes.items() if each not in names}
    hosts = {each: host for each, host in cluster.hosts.items() if each not in names}
    staying = tuple(each for each in cluster.tenants if each.placement.node not in names)
    return replace(cluster, nodes=nodes, tenants=staying, hosts=hosts)


def in_order_of_demand(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods with the most demanding first: small ones fit beside them more often."""

    def demand(pod: Pod) -> tuple[int, int, int, str]:
        asked = pod.request.containers
        return (
            -sum(each.whole_cards for each in asked),
            -sum(each.cores for each in asked),
            -sum(each.memory_units for each in asked),
            pod.title,
        )

    return sorted(pods, key=demand)


def with_more(cluster: Cluster, like: str, count: int) -> Cluster:
    """Return the cluster with `count` new nodes that have the hardware of the node named `like`.

    A new node is idle, healthy and in service, and has its model's labels and taints; its cards
    have no UUIDs and bus addresses yet. Names that are taken are passed over.

    Raises:
        NoSuchNode: there is none of that name.
        ValueError: a negative count.
    """
    if count < 0:
        raise ValueError(f"can't add {count} nodes")
    _check(cluster, [like])
    pattern = cluster.nodes[like]
    cards = tuple(
        replace(card, uuid="", bus="", healthy=True, since="", reason="") for card in pattern.cards
    )
    nodes, hosts = dict(cluster.nodes), dict(cluster.hosts)
    host = in_service(cluster.hosts.get(like, OPEN))
    number = 0
    while len(nodes) < len(cluster.nodes) + count:
        number += 1
        name = f"{like}-new-{number}"
        if name not in nodes:
            nodes[name] = replace(pattern, name=name, cards=cards, uses=(IDLE,) * len(cards))
            hosts[name] = replace(host, labels={**host.labels, HOSTNAME_LABEL: name})
    return replace(cluster, nodes=nodes, hosts=hosts)


def _check(cluster: Cluster, names: Iterable[str]) -> None:
    """Raise `NoSuchNode` with those of the names that no node has."""
    missing = [repr(name) for name in names if name not in cluster.nodes]
    if missing:
        raise NoSuchNode(f"no node is named {' or '.join(missing)}")
