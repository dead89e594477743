"""Requests with the fields of kube-scheduler 1.22 (Policy, full lists) and 1.34 (both forms)."""

import json
from typing import Any

from tests.extender.mini_cluster import PREDICATES, MiniCluster, limits, node, pod

# Fields of both versions that the extender ignores: the API server's defaults and bookkeeping.
MANAGED = [
    {
        "manager": "kubectl-create",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}}}}},
    }
]
TOLERATIONS = [
    {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
]


def defaulted(core: int, memory: int) -> dict[str, Any]:
    """A pod as the API server completes it."""
    value = pod("web-7d9c", core, memory)
    value["metadata"].update(
        generateName="web-7d9c", labels={"app": "web"}, managedFields=MANAGED, ownerReferences=[]
    )
    container = value["spec"]["containers"][0]
    container["resources"]["requests"] = limits(core, memory)
    container.update(
        image="busybox", imagePullPolicy="Never", terminationMessagePath="/dev/termination-log"
    )
    value["spec"].update(
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        tolerations=TOLERATIONS,
        priority=0,
        enableServiceLinks=True,
        preemptionPolicy="PreemptLowerPriority",
    )
    value["status"].update(qosClass="BestEffort")
    return value


def full_nodes() -> dict[str, Any]:
    """A NodeList as Go marshals it: metadata without fields, and no kind in the items."""
    items = []
    for name in ("gpu1", "gpu2", "cpu1"):
        value = node(name, 0 if name == "cpu1" else 2)
        del value["apiVersion"], value["kind"]
        value["metadata"]["managedFields"] = MANAGED
        value["status"]["images"] = [{"names": [f"image-{i}"], "sizeBytes": i} for i in range(50)]
        items.append(value)
    return {"metadata": {}, "items": items}


def answer(mini: MiniCluster, body: dict[str, Any]) -> dict[str, Any]:
    answered = mini.call("POST", PREDICATES, json.dumps(body).encode())
    assert answered.status == 200
    result: dict[str, Any] = answered.body
    return result


def test_scheduler_1_22_with_a_policy_and_full_lists(mini: MiniCluster) -> None:
    created = mini.create(defaulted(50, 32))
    nodes = full_nodes()
    result = answer(mini, {"Pod": created, "Nodes": nodes, "NodeNames": None})
    assert result["Nodes"]["items"] == [nodes["items"][0]]
    assert result["NodeNames"] is None
    assert result["FailedNodes"] == {"cpu1": "NoCards: the node has no GPU"}


def test_scheduler_1_34_with_full_lists(mini: MiniCluster) -> None:
    value = defaulted(200, 0)
    value["spec"]["containers"][0]["resizePolicy"] = [
        {"resourceName": "cpu", "restartPolicy": "NotRequired"}
    ]
    value["status"]["observedGeneration"] = 1
    created = mini.create(value)
    nodes = full_nodes()
    for item in nodes["items"]:
        item["status"]["runtimeHandlers"] = [{"name": "runc", "features": {}}]
    result = answer(mini, {"Pod": created, "Nodes": nodes, "NodeNames": None})
    assert [item["metadata"]["name"] for item in result["Nodes"]["items"]] == ["gpu1"]


def test_scheduler_1_34_with_names(mini: MiniCluster) -> None:
    created = mini.create(defaulted(50, 32))
    body = {"Pod": created, "Nodes": None, "NodeNames": ["cpu1", "gpu1", "gpu2"]}
    result = answer(mini, body)
    assert result["NodeNames"] == ["gpu1"]
    assert result["Nodes"] is None


def test_an_answer_that_no_node_fits_keeps_the_form(mini: MiniCluster) -> None:
    created = mini.create(defaulted(300, 0))
    full = answer(mini, {"Pod": created, "Nodes": full_nodes(), "NodeNames": None})
    assert full["Nodes"]["items"] == []
    assert set(full["FailedAndUnresolvableNodes"]) == {"gpu1", "gpu2", "cpu1"}
    assert full["FailedNodes"]["gpu1"] == "NoWholeCard: not enough wholly free GPUs"
