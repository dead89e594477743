"""What-if keeps to kube-scheduler's own rules, for new pods, drained ones and new nodes."""

import pathlib
from typing import Any

import pytest

from gpustack.cli.main import main
from tests.cli.plan.planning import DAEMON, OTHER, answer, written
from tests.cli.snapshots import node, pod, write

CORDONED = {"unschedulable": True}
TAINTED = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}
NOT_READY = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}
IN_ZONE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("spec", "wants", "code"),
    [
        (CORDONED, {}, "NodeUnschedulable"),
        (TAINTED, {}, "TaintNotTolerated"),
        (NOT_READY, {}, "TaintNotTolerated"),
        ({}, {"nodeSelector": {"zone": "b"}}, "NodeSelectorUnmet"),
        ({}, {"affinity": IN_ZONE}, "NodeAffinityUnmet"),
        ({}, {"schedulingGates": [{"name": "later"}]}, "SchedulingGated"),
    ],
)
def test_a_pod_is_placed_only_where_the_scheduler_allows_it(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    spec: dict[str, Any],
    wants: dict[str, Any],
    code: str,
) -> None:
    item = pod("half", 50, 8)
    item["spec"].update(wants)
    path = write(tmp_path, {**node(labels={"zone": "a"}), "spec": spec})
    asked = ("--snapshot", path, "--pod", written(tmp_path, item))
    status, value = answer(capsys, *asked)
    assert status == 1
    [left] = value["unplaced"]
    assert left["nodes"]["gpu1"]["code"] == code
    assert "gpu1" in left["nodes"]["gpu1"]["message"] or code == "SchedulingGated"
    status, value = answer(capsys, *asked, "--capacity", schema="what-if-capacity")
    assert (status, value["nodes"]) == (1, {"gpu1": 0})


def test_a_pod_that_tolerates_and_matches_is_placed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = pod("half", 50, 8)
    item["spec"] |= {
        "nodeSelector": {"zone": "b"},
        "affinity": IN_ZONE,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    here = {**node(OTHER, labels={"zone": "b"}), "spec": TAINTED}
    path = write(tmp_path, node(labels={"zone": "a"}), here)
    status, value = answer(capsys, "--snapshot", path, "--pod", written(tmp_path, item))
    assert (status, value["placements"][0]["node"]) == (0, "gpu2")


def test_a_drain_moves_a_pod_only_where_it_may_stand(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = pod("holder", 60, 8, held=True)
    path = write(tmp_path, node(), {**node(OTHER), "spec": CORDONED}, held)
    status, value = answer(capsys, "--snapshot", path, "--drain", "gpu1")
    assert status == 1
    reasons = value["unplaced"][0]["nodes"]
    assert {name: why["code"] for name, why in reasons.items()} == {"gpu2": "NodeUnschedulable"}


def test_a_drain_leaves_the_pods_that_kubectl_drain_leaves_and_says_so(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon, ending = pod("exporter", 10, 1, held=True), pod("ending", 10, 1, held=True)
    daemon["metadata"]["ownerReferences"] = [DAEMON]
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    done = {**pod("done", 10, 1, held=True), "status": {"phase": "Succeeded"}}
    path = write(tmp_path, node(), node(OTHER), daemon, ending, done)
    status, value = answer(capsys, "--snapshot", path, "--drain", "gpu1")
    assert (status, value) == (0, {"placements": [], "unplaced": []})
    assert main(["what-if", "--snapshot", path, "--drain", "gpu1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "STAYS             WHY",
        "default/exporter  of a DaemonSet or static: it goes with its node",
        "default/ending    deleted already",
        "",
        "NOTHING TO PLACE FROM  WHY",
        "gpu1                   all GPU pods on it stay",
    ]


def test_an_undecided_bound_pod_needs_a_place_too(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = pod("undecided", 60, 8)
    bound["spec"]["nodeName"] = "gpu1"
    path = write(tmp_path, node(), node(OTHER), bound)
    status, value = answer(capsys, "--snapshot", path, "--drain", "gpu1")
    assert (status, value["placements"][0]["node"]) == (0, "gpu2")


def test_a_new_node_is_in_service_and_carries_the_labels_of_its_model(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = pod("half", 50, 8)
    item["spec"] |= {"nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists",
                     "key": "nvidia.com/gpu"}]}  # fmt: skip
    spec = {"unschedulable": True, "taints": [*TAINTED["taints"], *NOT_READY["taints"]]}
    path = write(tmp_path, {**node(labels={"zone": "a"}), "spec": spec})
    more = ("--add-nodes", "1", "--like", "gpu1")
    asked = ("--snapshot", path, "--pod", written(tmp_path, item), "--count", "5")
    status, value = answer(capsys, *asked, *more)
    assert status == 1
    assert [each["node"] for each in value["placements"]] == ["gpu1-new-1"] * 4
    codes = {name: why["code"] for name, why in value["unplaced"][0]["nodes"].items()}
    assert codes == {"gpu1": "NodeUnschedulable", "gpu1-new-1": "InsufficientCore"}
