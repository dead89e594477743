"""kube-scheduler's calls of the verbs filter, prioritize, bind and preempt, by names."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.extender.mini_cluster import MiniCluster, pod


def post(mini: MiniCluster, verb: str, body: object, status: int = 200) -> Any:
    """Call a verb; returns the decoded result."""
    answer = mini.call("POST", f"/scheduler/{verb}", json.dumps(body).encode())
    assert answer.status == status, answer.raw
    return answer.body


def filter_nodes(
    mini: MiniCluster, asked: dict[str, Any], nodes: Sequence[str] | None = None
) -> Any:
    """Call filter, with all nodes unless some are named."""
    return post(mini, "filter", args(mini, asked, nodes))


def scores(
    mini: MiniCluster, asked: dict[str, Any], nodes: Sequence[str] | None = None
) -> dict[str, int]:
    """Call prioritize; returns the score of each node."""
    result = post(mini, "prioritize", args(mini, asked, nodes))
    return {entry["Host"]: entry["Score"] for entry in result}


def args(mini: MiniCluster, asked: dict[str, Any], nodes: Sequence[str] | None) -> dict[str, Any]:
    names = sorted(mini.service.cache.node_names) if nodes is None else list(nodes)
    return {"Pod": asked, "Nodes": None, "NodeNames": names}


def bind(mini: MiniCluster, asked: dict[str, Any], node: str) -> str:
    """Call bind; returns the error, empty when the pod is bound."""
    metadata = asked["metadata"]
    body = {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": node,
    }
    result = post(mini, "bind", body)
    assert list(result) == ["Error"]
    error: str = result["Error"]
    return error


def bindings(mini: MiniCluster, name: str = "p") -> list[dict[str, Any]]:
    """The bodies of all Bindings of a pod that the API server got."""
    return [request.body for request in mini.api.asked("POST", f"/pods/{name}/binding$")]


def bound(mini: MiniCluster, name: str, node: str, *asks: object, **options: Any) -> dict[str, Any]:
    """Create a pod and bind it, with cards where it asks for any; returns the pod."""
    assert bind(mini, mini.create(pod(name, *asks, **options)), node) == ""
    return mini.api.get("pods", name)


def recreated(mini: MiniCluster) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod that is gone, and another of its name; the extender's watch still shows the first."""
    first = mini.sees(mini.create(pod("p", 50, 32)))
    mini.api.hold_watches()
    mini.api.delete("pods", "p")
    return first, mini.create(pod("p", 50, 32))


def preempt(
    mini: MiniCluster,
    asked: dict[str, Any],
    victims: Mapping[str, Sequence[str]],
    violations: int = 0,
) -> dict[str, list[str]]:
    """Call preempt with the names of the victims by node; returns the answer's."""
    found = preempt_result(mini, asked, victims, violations)
    uids = {
        each["metadata"]["uid"]: each["metadata"]["name"] for each in mini.api.store.list("pods")[1]
    }
    return {node: [uids[each["UID"]] for each in entry["Pods"]] for node, entry in found.items()}


def preempt_result(
    mini: MiniCluster,
    asked: dict[str, Any],
    victims: Mapping[str, Sequence[str]],
    violations: int = 0,
) -> Any:
    proposed = {
        node: {
            "Pods": [{"UID": mini.api.get("pods", name)["metadata"]["uid"]} for name in names],
            "NumPDBViolations": violations,
        }
        for node, names in victims.items()
    }
    body = {"Pod": asked, "NodeNameToVictims": None, "NodeNameToMetaVictims": proposed}
    return post(mini, "preempt", body)["NodeNameToMetaVictims"]


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make all calls at the same moment; returns their results."""
    all_there = threading.Barrier(len(calls))

    def make(call: Callable[[], Any]) -> Any:
        all_there.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(make, call) for call in calls]]
