"""Answers about one pod as plain values: the form of `explain.json`.

`gpustack explain` prints it and the extender's `/v1/explain` answers with it, so a program reads
both alike.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gpustack.model.cluster.cluster import Cluster
from gpustack.model.explain.alternatives import Alternative, Standing
from gpustack.model.explain.explanation import Explanation
from gpustack.model.explain.query import Change
from gpustack.model.placement import Placement
from gpustack.model.quota.quota import Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Refusal
from gpustack.model.units import CORES_PER_CARD
from gpustack.wire.violations import ShareViolation

ROOM: Final = "there is room for its cards; what else keeps it waiting, kubectl describe pod says"
"""The note on a pod that waits although some node has its cards."""

CLAIMS: Final = (
    "it may have a node, counts in its namespace's quota and waits to be bound; kubectl describe "
    "pod says which volumes it waits for"
)
"""The note on a pod that `filter` has let pass in a namespace with a quota."""


def ignored(problem: str) -> str:
    """Return the note on a bound pod whose user key can't be read."""
    return f"{problem}; ignored, because the pod is bound"


def undecided(node: str) -> str:
    """Return the note on a pod that is bound without a decision."""
    return f"it is bound to {node}, but no decision stands on it: its cards are not known yet"


def violation(found: ShareViolation) -> str:
    """Return the note on a pod with a container that goes past its limits."""
    return f"{found.text}; its Event says more, and docs/isolation.md what that means"


def waiting(
    pod: str, cluster: Cluster, found: Explanation, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the answer for a pod (`namespace/name`) that holds no card."""
    return {
        **_head(pod, cluster, notes),
        "fits": found.fits,
        "choice": found.choice or None,
        "nodes": {name: answer(each) for name, each in found.answers.items()},
        "changes": [change(each) for each in found.changes],
    }


def running(
    pod: str,
    cluster: Cluster,
    held: Placement,
    found: Standing | None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the answer for a pod that holds cards; `found` is None where its node is unknown."""
    body = {**_head(pod, cluster, notes), "fits": True, "held": placement(held)}
    if found is not None:
        body["trouble"] = None if found.trouble is None else refusal(found.trouble)
        body["nodes"] = {name: refusal(each) for name, each in found.refusals.items()}
        body["alternatives"] = [alternative(each) for each in found.alternatives]
    return body


def _head(pod: str, cluster: Cluster, notes: Sequence[str]) -> dict[str, Any]:
    namespace = pod.partition("/")[0]
    return {
        "pod": pod,
        "fits": False,
        "notes": list(notes),
        "held": None,
        "trouble": None,
        "choice": None,
        "nodes": {},
        "changes": [],
        "alternatives": [],
        "quota": next(iter(quotas(cluster.quota, cluster.usage(namespace), [namespace])), None),
    }


def answer(found: Placement | Refusal) -> dict[str, Any]:
    """Return a node's answer."""
    return placement(found) if isinstance(found, Placement) else refusal(found)


def placement(found: Placement) -> dict[str, Any]:
    """Return where a pod is or would be."""
    return {
        "node": found.node,
        "containers": [
            {"name": each.name, "minors": list(each.minors), "uuids": list(each.uuids)}
            for each in found.containers
        ],
        **gap(found),
    }


def gap(found: Placement) -> dict[str, Any]:
    """Return what a stopped search has not ruled out; nothing where the search came to its end."""
    if found.gap is None:
        return {}
    return {"gap": {"level": found.gap.level.name, "cost": found.gap.cost}}


def refusal(found: Refusal) -> dict[str, Any]:
    """Return why not."""
    return {
        "code": str(found.reason),
        "message": found.detail or found.message,
        "cards": [{"minor": each.minor, "code": str(each.reason)} for each in found.cards],
    }


def change(found: Change) -> dict[str, Any]:
    """Return one change after which the pod fits."""
    asked = {each.name: each for each in found.request.containers}
    container = asked.get(found.container)
    return {
        "kind": str(found.kind),
        "text": found.text,
        "also": found.also,
        "container": found.container,
        "cores": None if container is None else container.cores,
        "memory_units": None if container is None else container.memory_units,
        "names": list(found.names),
        "count": found.count,
        "smallest": found.smallest,
        "placement": placement(found.placement),
    }


def alternative(found: Alternative) -> dict[str, Any]:
    """Return another place for a running pod."""
    return {
        "placement": placement(found.placement),
        "verdict": str(found.verdict),
        "criterion": found.criterion,
        "chosen": found.chosen,
        "other": found.other,
    }


def quotas(quota: Quota, usage: Usage, namespaces: Iterable[str]) -> list[dict[str, Any]]:
    """Return the quota of those of the namespaces that have one, and what is used of it.

    Cards are numbers with at most two decimals.
    """
    limits = quota.namespaces
    return [
        {
            "namespace": namespace,
            "pools": list(limits[namespace].pools),
            "models": [
                {
                    "model": name,
                    "cards": most / CORES_PER_CARD,
                    "used": usage.used(namespace, name) / CORES_PER_CARD,
                    "pods": [
                        {"name": pod, "cards": part / CORES_PER_CARD}
                        for _, pod, part in usage.holders(namespace, name)
                    ],
                }
                for name, most in sorted(limits[namespace].cards.items())
            ],
        }
        for namespace in sorted(namespaces)
        if namespace in limits
    ]
