"""What `/v1` answers with, as plain values: the forms of `v1-cluster.json` and `v1-decisions.json`.

Amounts are the resources' own: cores are hundredths of a card, memory units 256 MiB.
"""

import collections
import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from extender.cache.pods import PodState
from extender.cache.snapshot import ClusterSnapshot
from extender.observability.card_utilisation import CardUtilisation
from extender.observability.decision_log import DecisionRecord
from gpustack.model.cluster import eligibility
from gpustack.model.node import Card, Node
from gpustack.model.placement import Placement, holds
from gpustack.model.request import PodRequest, Selector
from gpustack.model.units import CORES_PER_CARD
from gpustack.model.use import Use
from gpustack.wire import explanations, violations
from gpustack.wire.violations import ShareViolation

_MOST_TOLD_BYTES: Final = 4 << 20  # of a namespace's waiting pods; most are told in some hundred
_MOST_TOLD_TOGETHER_BYTES: Final = 16 << 20  # each namespace has the same part


class ClusterValues:
    """Makes the answer of `/v1/cluster`, and keeps of each node what was made of it.

    A page asks every few seconds, and to make a thousand nodes anew takes time from the decisions.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def make(
        self,
        snapshot: ClusterSnapshot,
        refusals: Mapping[str, DecisionRecord],
        usage: CardUtilisation,
        *,
        unready: str,
        quota_problem: str,
    ) -> dict[str, Any]:
        """Return everything there is; ``refusals`` are the last ones of the pods, by UID."""
        nodes = snapshot.cluster.nodes
        known = {
            name: self._node(snapshot, nodes[name], usage.busy(nodes[name]))
            for name in sorted(nodes)
        }
        self._known = known  # in one store: another thread may be here as well
        return {
            "policy": snapshot.policy.name,
            "unready": unready,
            "nodes": [value for _, value in known.values()],
            "waiting": list(waiting(snapshot.waiting, refusals)),
            "quotas": snapshot.quotas,
            "quota_problem": quota_problem,
        }

    def _node(self, snapshot: ClusterSnapshot, node: Node, busy: Mapping[str, float]) -> "_Known":
        host = snapshot.cluster.hosts.get(node.name, eligibility.OPEN)
        held = snapshot.holders.get(node.name, {})
        pods = [pod for uid in held if (pod := snapshot.pods.get(uid)) is not None]
        text = snapshot.texts.get(node.name, "")
        sources = node, host, text, busy, [(pod.uid, pod.node, pod.deletion) for pod in pods]
        before = self._known.get(node.name)
        if before is not None and before[0] == sources:
            return before
        said = snapshot.violations(node.name)
        tenants = [_tenant(pod, held[pod.uid], node, said) for pod in pods]
        return sources, msgspec.Raw(msgspec.json.encode(_node(node, host, busy, tenants)))


_Known = tuple[tuple[object, ...], msgspec.Raw]
"""What a node's value was made of, and the value."""


def decisions(last: Sequence[DecisionRecord]) -> dict[str, Any]:
    """Return the last decisions, newest first."""
    return {"decisions": [_decision(record) for record in last]}


def moment(time_ns: int) -> str:
    """Return Unix nanoseconds as RFC 3339, to the millisecond."""
    when = datetime.datetime.fromtimestamp(time_ns // 10**6 / 1e3, datetime.UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _node(
    node: Node,
    host: eligibility.Host,
    busy: Mapping[str, float],
    tenants: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    return {
        "name": node.name,
        "pool": node.pool,
        "driver": node.driver,
        "cuda": node.cuda,
        "states": eligibility.states(host),
        "cordoned": host.cordoned,
        "taints": [str(taint) for taint in host.taints],
        "cards": [
            _card(card, use, busy.get(card.uuid))
            for card, use in zip(node.cards, node.uses, strict=True)
        ],
        "links": node.links,
        "pods": sorted(tenants, key=lambda each: (each["namespace"], each["name"])),
    }


def _card(card: Card, use: Use, utilised: float | None) -> dict[str, Any]:
    return {
        "minor": card.minor,
        "uuid": card.uuid,
        "model": card.model,
        "bus": card.bus,
        "numa": card.numa,
        "healthy": card.healthy,
        "since": card.since,
        "reason": card.reason,
        "cores": CORES_PER_CARD,
        "cores_used": use.cores,
        "memory_units": card.memory_units,
        "memory_units_used": use.memory_units,
        "utilised": utilised,
    }


def _tenant(
    pod: PodState, held: Placement, node: Node, said: Sequence[ShareViolation]
) -> dict[str, Any]:
    # A node may say anything; of pods that aren't bound to it, it isn't heard.
    names = {each.name for each in held.containers} if pod.node == node.name else set()
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "bound": bool(pod.node),
        "leaving": pod.deletion,
        "violations": violations.as_json(violations.of_pod(said, pod.uid, names)),
        "cards": [
            {
                "minor": node.cards[index].minor,
                "cores": use.cores,
                "memory_units": use.memory_units,
            }
            for index, use in sorted(holds(node, held).items())
        ],
    }


def waiting(
    pods: Collection[PodState], refusals: Mapping[str, DecisionRecord]
) -> Iterator[msgspec.Raw]:
    """Tell of waiting pods, each as JSON: to encode all in one go would stop every other thread.

    A tenant's pods may each ask much and name much, and it may have many namespaces. So of each
    namespace the first pods are told in whole, up to some bytes, and the further ones without what
    is long in them.
    """
    namespaces = len({pod.namespace for pod in pods})
    most = min(_MOST_TOLD_BYTES, _MOST_TOLD_TOGETHER_BYTES // max(1, namespaces))
    told: collections.Counter[str] = collections.Counter()
    for pod in pods:
        whole = told[pod.namespace] < most
        text = msgspec.json.encode(_waiting(pod, refusals.get(pod.uid), whole=whole))
        told[pod.namespace] += len(text)
        yield msgspec.Raw(text)


def _waiting(pod: PodState, record: DecisionRecord | None, *, whole: bool) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "priority": pod.priority,
        "gated": pod.gated,
        "nominated": pod.nominated,
        "request": _request(pod.request) if whole else None,
        "problem": pod.problem.message if pod.problem is not None else "",
        "refusal": _refusal(record) if record is not None else None,
        "scheduler": pod.unschedulable if whole else "",
        "since": moment(pod.unschedulable_ns) if pod.unschedulable_ns > 1 else None,
        "created": moment(pod.created_ns) if pod.created_ns else None,
        "owner": pod.owner,
    }


def _refusal(record: DecisionRecord) -> dict[str, Any]:
    return {
        "time": moment(record.time_ns),
        "code": record.outcome,
        "nodes": record.nodes,
        "reasons": dict(record.reasons),
        "message": record.message,
    }


def _decision(record: DecisionRecord) -> dict[str, Any]:
    given = record.placement
    return {
        "number": record.number,
        "time": moment(record.time_ns),
        "verb": record.verb,
        "namespace": record.namespace,
        "name": record.pod,
        "uid": record.uid,
        "request": _request(record.request),
        "outcome": record.outcome,
        "nodes": record.nodes,
        "reasons": dict(record.reasons),
        "chosen": explanations.placement(given) if given is not None else None,
        "message": record.message,
        "seconds": round(record.seconds, 6),
    }


def _request(request: PodRequest | None) -> dict[str, Any] | None:
    if request is None:
        return None
    return {
        "containers": [
            {
                "name": each.name,
                "kind": each.kind.value,
                "cores": each.cores,
                "memory_units": each.memory_units,
            }
            for each in request.containers
        ],
        "models": _names(request.models),
        "uuids": _names(request.uuids),
        "topology": request.topology.value,
        "node_strategy": request.node_strategy.value,
        "card_strategy": request.card_strategy.value,
    }


def _names(selector: Selector) -> list[str]:
    """Return names as users write them: `!P40` excludes."""
    return [*selector.include, *(f"!{name}" for name in selector.exclude)]
