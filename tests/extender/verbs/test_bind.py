"""The verb bind: its writes and its refusals."""

import functools
from typing import Any

import pytest

from tests.extender.calls import at_once, bind, bindings, bound, filter_nodes, post, recreated
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, LEAVING, MiniCluster, limits, original_node, pod
from tests.fakes.kube_http import Request

WATCHED = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/namespaces/kube-system/configmaps",
    "/apis/policy/v1/poddisruptionbudgets",
)


def test_one_call_binds_the_pod_with_its_cards(mini: MiniCluster) -> None:
    created = mini.create(pod("p", 50, 32, annotations={"mine": "1"}))
    assert bind(mini, created, "gpu2") == ""
    assert mini.api.get("pods", "p")["spec"]["nodeName"] == "gpu2"
    written = mini.annotations("p")
    assert written.pop(KEYS.predicate_time).isdigit()
    assert written == {
        "mine": "1",
        KEYS.predicate_node: "gpu2",
        KEYS.gpu_assigned: "false",
        "tencent.com/predicate-gpu-idx-0": "0",
        "tencent.com/predicate-gpu-uuid-0": "GPU-gpu2-0",
    }
    assert mini.api.asked("PATCH", "") == []


def test_the_binding_names_the_uid_and_version_of_the_pod(mini: MiniCluster) -> None:
    created = mini.create(pod("p", 50, 32))
    assert bind(mini, created, "gpu1") == ""
    (body,) = bindings(mini)
    metadata = created["metadata"]
    assert body["metadata"]["uid"] == metadata["uid"]
    assert body["metadata"]["resourceVersion"] == metadata["resourceVersion"]
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "gpu1"}


def test_a_binding_counts_at_once_and_an_event_names_the_cards(mini: MiniCluster) -> None:
    mini.api.hold_watches()
    created = mini.create(pod("p", 100))
    assert bind(mini, created, "gpu1") == ""
    assert mini.free_cores("gpu1") == 100
    eventually(lambda: bool(mini.api.events()))
    (event,) = mini.api.events()
    assert (event["type"], event["reason"]) == ("Normal", "GPUBound")
    assert event["message"] == "bound to gpu1: container main: GPU 0"


def test_a_second_bind_of_a_bound_pod_writes_nothing(mini: MiniCluster) -> None:
    created = bound(mini, "p", "gpu1", 50, 32)
    assert bind(mini, created, "gpu1") == ""
    assert len(bindings(mini)) == 1
    assert mini.api.get("pods", "p") == created


def test_a_second_bind_before_the_watch_shows_the_first_writes_nothing(mini: MiniCluster) -> None:
    mini.api.hold_watches()
    created = mini.create(pod("p", 50, 32))
    assert [bind(mini, created, "gpu1") for _ in range(2)] == ["", ""]
    assert len(bindings(mini)) == 1
    assert mini.free_cores("gpu1") == 150


def test_a_pod_that_runs_elsewhere_is_an_error_and_keeps_its_cards(mini: MiniCluster) -> None:
    created = bound(mini, "p", "gpu1", 50, 32)
    assert "runs on node gpu1 already" in bind(mini, created, "gpu2")
    assert (mini.free_cores("gpu1"), mini.free_cores("gpu2")) == (150, 200)


def test_a_pod_that_another_client_bound_without_cards_is_an_error(mini: MiniCluster) -> None:
    created = mini.create(pod("p", 50, 32))
    mini.bind("p", "gpu1")
    assert "by another writer, without cards" in bind(mini, created, "gpu1")
    assert mini.free_cores("gpu1") == 200


def test_another_pod_of_the_name_is_not_bound(mini: MiniCluster) -> None:
    first = mini.create(pod("p", 50, 32))
    mini.api.delete("pods", "p")
    second = mini.create(pod("p", 50, 32))
    uid = first["metadata"]["uid"]
    assert f"pod default/p with UID {uid} is gone" in bind(mini, first, "gpu1")
    assert mini.api.get("pods", "p") == second


def test_another_pod_that_no_watch_has_shown_is_not_bound(mini: MiniCluster) -> None:
    first, second = recreated(mini)
    assert "is gone" in bind(mini, first, "gpu1")
    assert mini.api.get("pods", "p") == second
    assert mini.free_cores("gpu1") == 200


def test_a_pod_that_is_gone_is_an_error_and_leaves_nothing(mini: MiniCluster) -> None:
    created = mini.sees(mini.create(pod("p", 50, 32)))
    mini.api.hold_watches()
    mini.api.delete("pods", "p")
    assert "is gone" in bind(mini, created, "gpu1")
    assert mini.free_cores("gpu1") == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": {"phase": "Failed"}}, "has finished"),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, "schedulingGates"),
        (LEAVING, "is being deleted"),
    ],
)
@pytest.mark.parametrize("seen", [True, False])
def test_a_pod_that_may_not_be_placed_is_an_error_and_leaves_nothing(
    mini: MiniCluster, change: dict[str, Any], words: str, seen: bool
) -> None:
    created = mini.sees(mini.create(pod("p", 50, 32)))
    if not seen:
        mini.api.hold_watches()
    changed = mini.api.edit("pods", "p", change)
    if seen:
        mini.sees(changed)
    assert words in bind(mini, created, "gpu1")
    assert "nodeName" not in mini.api.get("pods", "p")["spec"]
    assert mini.free_cores("gpu1") == 200


def test_a_pod_that_asks_badly_is_an_error(mini: MiniCluster) -> None:
    created = mini.create(pod("p", 150, 32))
    assert "spec.containers[0].resources.limits" in bind(mini, created, "gpu1")
    assert bindings(mini) == []


@pytest.mark.parametrize("core", [None, 0])
def test_a_pod_without_gpu_is_bound(mini: MiniCluster, core: object) -> None:
    created = mini.create(pod("p", core))
    mini.api.edit("pods", "p", {"metadata": {"labels": {"changed": "since"}}})
    assert bind(mini, created, "cpu1") == ""
    assert mini.api.get("pods", "p")["spec"]["nodeName"] == "cpu1"
    assert mini.annotations("p") == {}
    assert "resourceVersion" not in bindings(mini)[0]["metadata"]


def test_a_pod_without_gpu_that_has_ended_is_not_bound(mini: MiniCluster) -> None:
    created = mini.create({**pod("p"), "status": {"phase": "Failed"}})
    assert "has finished" in bind(mini, created, "cpu1")
    assert bindings(mini) == []


def test_a_bind_whose_card_was_taken_is_an_error_with_the_numbers(
    mini: MiniCluster,
) -> None:
    first, second = mini.create(pod("a", 200)), mini.create(pod("p", 60, 32))
    assert "gpu1" in filter_nodes(mini, second)["NodeNames"]
    assert bind(mini, first, "gpu1") == ""
    error = bind(mini, second, "gpu1")
    assert error.startswith(
        "gpustack: pod default/p does not fit on node gpu1 any more: "
        "InsufficientCore: no GPU has enough free vcuda-core (container 'main' on node gpu1: "
    )
    assert error.endswith("; the scheduler will ask again")
    assert bindings(mini) == []
    assert mini.free_cores("gpu1") == 0
    assert bind(mini, second, "gpu2") == ""
    text = mini.call("GET", "/metrics").raw.decode()
    assert 'gpustack_extender_decisions_total{outcome="Overtaken"} 1.0' in text
    assert 'gpustack_extender_decisions_total{outcome="Bound"} 2.0' in text


def of_a_watch(request: Request) -> bool:
    """Say whether a watch of the extender sent a request, which may come at any time."""
    selector = request.query.get("fieldSelector", "")
    return request.path in WATCHED and selector in ("", "metadata.name=gpuquota")


@pytest.mark.parametrize("name", ["gpu9", "../../secrets", "gpu1,spec.nodeName!=x", "?watch=1"])
def test_an_unknown_node_is_named_and_leads_to_no_path(mini: MiniCluster, name: str) -> None:
    created = mini.sees(mini.create(pod("p", 50, 32)))
    before = len(mini.api.requests)
    assert "NodeUnknown" in bind(mini, created, name)
    later = [each for each in mini.api.requests[before:] if not of_a_watch(each)]
    assert [each.path for each in later if not each.path.endswith("/events")] == []


def test_sidecars_that_an_old_body_lacks_get_their_cards(mini: MiniCluster) -> None:
    value = pod("p", 100)
    value["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"limits": limits(100)}}
    ]
    assert bind(mini, mini.create(value), "gpu1") == ""
    assert "tencent.com/predicate-gpu-idx-init-0" in mini.annotations("p")
    eventually(lambda: mini.free_cores("gpu1") == 0)


def test_a_pod_that_no_watch_has_shown_is_read_once(mini: MiniCluster) -> None:
    mini.api.hold_watches()
    assert bind(mini, mini.create(pod("p", 50, 32)), "gpu1") == ""
    assert len(mini.api.asked("GET", "/pods/p$")) == 1


def test_card_annotations_of_a_user_are_removed_first(mini: MiniCluster) -> None:
    forged = {"tencent.com/predicate-gpu-idx-7": "0", "tencent.com/predicate-gpu-uuid-7": "GPU-x"}
    created = mini.create(pod("p", 50, 32, annotations={**forged, "app": "kept"}))
    assert bind(mini, created, "gpu1") == ""
    written = mini.annotations("p")
    assert not forged.keys() & written.keys()
    assert written["app"] == "kept"
    assert written["tencent.com/predicate-gpu-idx-0"] == "0"
    eventually(lambda: mini.free_cores("gpu1") == 150)


def test_a_second_request_for_the_pod_waits_for_the_first(mini: MiniCluster) -> None:
    created = mini.create(pod("p", 50, 32))
    errors = at_once([functools.partial(bind, mini, created, "gpu1")] * 8)
    assert errors == [""] * 8
    assert len(bindings(mini)) == 1


def test_one_of_fifty_pods_gets_the_last_card(mini: MiniCluster) -> None:
    bound(mini, "first", "gpu1", 100)
    wanting = [mini.create(pod(f"p{i}", 100)) for i in range(50)]
    errors = at_once([functools.partial(bind, mini, value, "gpu1") for value in wanting])
    assert errors.count("") == 1
    assert all("NoWholeCard" in error for error in errors if error)
    held = [
        each["metadata"]["annotations"]["tencent.com/predicate-gpu-uuid-0"]
        for each in mini.api.store.list("pods")[1]
        if each["spec"].get("nodeName") == "gpu1"
    ]
    assert sorted(held) == ["GPU-gpu1-0", "GPU-gpu1-1"]


def test_a_node_without_published_uuids_gets_minors_only(mini: MiniCluster) -> None:
    mini.api.create("nodes", original_node("old"))
    eventually(lambda: mini.service.cache.node("old") is not None)
    stale = {"tencent.com/predicate-gpu-uuid-0": "GPU-gpu1-0"}
    created = mini.create(pod("p", 50, 16, annotations=stale))
    assert bind(mini, created, "old") == ""
    written = mini.annotations("p")
    assert written["tencent.com/predicate-gpu-idx-0"] == "0"
    assert "tencent.com/predicate-gpu-uuid-0" not in written


def test_a_body_without_a_field_is_400_and_names_it(mini: MiniCluster) -> None:
    body = {"PodName": "p", "PodNamespace": "default", "PodUID": "1"}
    assert post(mini, "bind", body, status=400) == {"Error": "Node: is missing"}
