"""The fields of a pod's JSON, read without the product's code."""

import functools
from collections.abc import Mapping
from typing import Any

from gpustack.wire.keys import Keys
from tests.fakes import kube_rules
from tests.fakes.kube_store import KubeObject, Store

KEYS = Keys("tencent.com")
CORES = 100

Asked = tuple[str, int, int]  # of one container: annotation suffix, cores, units
Card = tuple[str, int]  # node, minor
Cards = Mapping[Card, tuple[int, int]]  # cores and units taken; a whole card has no units here


def key(pod: KubeObject) -> tuple[str, str, str]:
    """The pod's key in the store."""
    return "pods", pod["metadata"]["namespace"], pod["metadata"]["name"]


def uid(pod: KubeObject) -> str:
    found: str = pod["metadata"]["uid"]
    return found


def version(pod: KubeObject) -> int:
    return int(pod["metadata"]["resourceVersion"])


def asked(pod: KubeObject) -> list[Asked]:
    """The requests of the containers that run to the pod's end."""
    found = []
    for prefix, name in (("", "containers"), ("init-", "initContainers")):
        for index, container in enumerate(pod["spec"].get(name) or ()):
            limits = container["resources"]["limits"]
            cores = int(limits[KEYS.vcuda_core])
            units = int(limits.get(KEYS.vcuda_memory) or 0)
            found.append((f"{prefix}{index}", cores, units))
    return found


def totals(pod: KubeObject) -> tuple[int, int]:
    """The scheduler's own sum of a pod: cores and units over all containers."""
    wanted = asked(pod)
    return sum(cores for _, cores, _ in wanted), sum(units for _, _, units in wanted)


def annotations(pod: KubeObject) -> dict[str, str]:
    return pod["metadata"].get("annotations") or {}


def text_of(pod: KubeObject) -> tuple[tuple[str, str], ...]:
    """The decision in a pod's annotations; empty where all its cards were removed."""
    found = sorted((k, v) for k, v in annotations(pod).items() if "/predicate-" in k)
    return tuple(found) if any(k.startswith(KEYS.idx_prefix) for k, _ in found) else ()


def finished(pod: KubeObject) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def bound(pod: KubeObject) -> str:
    name: str = pod["spec"].get("nodeName") or ""
    return name


def ending(pod: KubeObject) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def running(pod: KubeObject, node: str) -> bool:
    return bound(pod) == node and not finished(pod)


def gated(pod: KubeObject) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def pending(pod: KubeObject) -> bool:
    return not bound(pod) and not finished(pod) and not ending(pod)


def priority(pod: KubeObject) -> int:
    return int(pod["spec"].get("priority") or 0)


def nominated(pod: KubeObject) -> str:
    """The node on which the scheduler makes room for the pod."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def cards(pod: KubeObject) -> dict[Card, tuple[int, int]]:
    """The cards of a pod's annotations; none where the annotations can't be a decision."""
    written = annotations(pod)
    node = written.get(KEYS.predicate_node, "")
    if not node or (bound(pod) and bound(pod) != node):
        return {}
    total: dict[Card, tuple[int, int]] = {}
    wanted = {f"{KEYS.idx_prefix}{suffix}" for suffix, _, _ in asked(pod)}
    if any(each.startswith(KEYS.idx_prefix) and each not in wanted for each in written):
        return {}
    for suffix, cores, units in asked(pod):
        minors = [
            int(minor) for minor in written.get(f"{KEYS.idx_prefix}{suffix}", "-1").split(",")
        ]
        if len(minors) != max(1, cores // CORES) or -1 in minors:
            return {}
        for minor in minors:
            before = total.get((node, minor), (0, 0))
            share = (CORES, 0) if cores >= CORES else (cores, units)
            total[node, minor] = before[0] + share[0], before[1] + share[1]
    return total


def patch(store: Store, pod: KubeObject, **changes: Any) -> KubeObject:
    """Change a present pod; returns the changed pod."""
    return store.update(key(pod), functools.partial(_merged, changes=changes))


def _merged(old: KubeObject, changes: KubeObject) -> KubeObject:
    return kube_rules.patched(old, changes, "application/merge-patch+json")
