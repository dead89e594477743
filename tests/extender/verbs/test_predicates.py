"""The verb `/scheduler/predicates`: its choices, its writes, its refusals."""

import json
from typing import Any

import pytest

from tests.extender.calls import recreated
from tests.extender.client import eventually
from tests.extender.mini_cluster import CARD_UNITS, KEYS, MiniCluster, node, pod


def test_a_share_gets_one_node_and_one_card_before_the_answer(mini: MiniCluster) -> None:
    result = mini.place("share", 50, 32)
    assert result["NodeNames"] == ["gpu1"]
    assert result["Error"] == ""
    written = mini.annotations("share")
    assert written.pop(KEYS.predicate_time).isdigit()
    assert written == {
        KEYS.predicate_node: "gpu1",
        KEYS.gpu_assigned: "false",
        "tencent.com/predicate-gpu-idx-0": "0",
        "tencent.com/predicate-gpu-uuid-0": "GPU-gpu1-0",
    }


def test_the_patch_names_the_pod_by_uid(mini: MiniCluster) -> None:
    created = mini.create(pod("share", 50, 32))
    mini.ask(created)
    (patch,) = mini.api.asked("PATCH", "/pods/share/status$")
    assert patch.body["metadata"]["uid"] == created["metadata"]["uid"]


def test_two_whole_cards_come_from_one_node(mini: MiniCluster) -> None:
    result = mini.place("whole", 200)
    assert result["NodeNames"] == ["gpu1"]
    assert mini.annotations("whole")["tencent.com/predicate-gpu-idx-0"] == "0,1"


def test_a_card_that_an_ended_pod_holds_is_not_given(mini: MiniCluster) -> None:
    value = node("gpu3")
    described = json.loads(value["metadata"]["annotations"][KEYS.gpu_devices])
    described["devices"][0].update(held_cores=60, held_memory=10)
    value["metadata"]["annotations"][KEYS.gpu_devices] = json.dumps(described)
    mini.api.create("nodes", value)
    eventually(lambda: "gpu3" in mini.service.cache.node_names)
    for name, cores, minor in (("whole", 100, "1"), ("share", 40, "0")):
        assert mini.ask(mini.create(pod(name, cores, 32)), ["gpu3"])["NodeNames"] == ["gpu3"]
        assert mini.annotations(name)["tencent.com/predicate-gpu-idx-0"] == minor
    assert not mini.ask(mini.create(pod("no-more", 1, 1)), ["gpu3"])["NodeNames"]


def test_full_nodes_are_answered_by_the_chosen_one_untouched(mini: MiniCluster) -> None:
    given = [{**node(name), "extra": {"näme": [1, 2.5, None]}} for name in ("gpu1", "gpu2")]
    body = {"Pod": mini.create(pod("p", 50, 32)), "Nodes": {"items": given}, "NodeNames": None}
    answer = mini.call("POST", "/scheduler/predicates", json.dumps(body).encode())
    assert answer.body["Nodes"]["items"] == [given[0]]
    assert answer.body["NodeNames"] is None


@pytest.mark.parametrize("form", ["Nodes", "NodeNames"])
def test_a_pod_without_gpu_gets_its_nodes_back_and_no_annotation(
    mini: MiniCluster, form: str
) -> None:
    nodes = {"metadata": {"resourceVersion": "7"}, "items": [node("elsewhere"), node("gpu2")]}
    created = mini.create(pod("plain"))
    body: dict[str, Any] = {"Pod": created, "Nodes": None, "NodeNames": None}
    body[form] = nodes if form == "Nodes" else ["elsewhere", "gpu2"]
    answer = mini.call("POST", "/scheduler/predicates", json.dumps(body).encode())
    assert answer.body[form] == body[form]
    assert not answer.body["FailedNodes"]
    assert answer.body["Error"] == ""
    assert mini.api.get("pods", "plain") == created


def test_the_fuller_node_is_filled_first_and_a_ninth_half_is_refused(
    mini: MiniCluster,
) -> None:
    chosen = [mini.place(f"half{i}", 50, 32)["NodeNames"] for i in range(8)]
    assert chosen == [["gpu1"]] * 4 + [["gpu2"]] * 4
    result = mini.place("ninth", 50, 32)
    words = "InsufficientCore: no GPU has enough free vcuda-core"
    assert result["NodeNames"] == []
    assert result["FailedNodes"] == {
        "gpu1": words,
        "gpu2": words,
        "cpu1": "NoCards: the node has no GPU",
    }
    assert result["FailedAndUnresolvableNodes"] == result["FailedNodes"]
    assert result["Error"] == ""
    assert KEYS.predicate_time not in mini.annotations("ninth")


def test_the_event_of_a_refusal_has_its_numbers(mini: MiniCluster) -> None:
    mini.place("big", 50, CARD_UNITS + 1)
    eventually(lambda: bool(mini.api.events()))
    (event,) = mini.api.events()
    assert event["involvedObject"]["name"] == "big"
    assert event["type"] == "Warning"
    assert event["reason"] == "InsufficientMemory"
    assert event["message"].startswith("of 3 nodes that kube-scheduler asked about, none fits: ")
    assert "321" in event["message"]


@pytest.mark.parametrize(
    ("core", "memory", "field"),
    [
        (150, 32, "vcuda-core"),
        (50, None, "vcuda-memory"),
        (None, 32, "vcuda-core"),
        (-1, 32, "vcuda-core"),
        ("half", 32, "vcuda-core"),
        (50, "8Gi", "vcuda-memory"),
    ],
)
def test_a_bad_request_fails_every_node_and_an_event_names_the_field(
    mini: MiniCluster, core: object, memory: object, field: str
) -> None:
    result = mini.place("bad", core, memory)
    words = "BadRequest: the pod's GPU request is invalid"
    assert result["FailedNodes"] == dict.fromkeys(["cpu1", "gpu1", "gpu2"], words)
    assert result["FailedAndUnresolvableNodes"] == result["FailedNodes"]
    assert result["NodeNames"] == []
    eventually(lambda: bool(mini.api.events()))
    (event,) = mini.api.events()
    assert event["reason"] == "BadRequest"
    assert f"spec.containers[0].resources.limits[tencent.com/{field}]" in event["message"]
    assert mini.annotations("bad") == {}


def test_the_same_event_is_not_repeated(mini: MiniCluster) -> None:
    created = mini.create(pod("bad", 150, 32))
    for _ in range(3):
        mini.ask(created)
    mini.place("good", 50, 32)
    eventually(lambda: len(mini.api.events()) == 2)
    assert [event["reason"] for event in mini.api.events()] == ["BadRequest", "GPUReserved"]


def test_a_repeated_request_gets_the_same_answer(mini: MiniCluster) -> None:
    created = mini.create(pod("one", 50, 32))
    assert mini.ask(created)["NodeNames"] == ["gpu1"]
    before = mini.annotations("one")
    mini.place("other", 50, 32)
    assert mini.ask(created)["NodeNames"] == ["gpu1"]
    after = mini.annotations("one")
    assert int(after.pop(KEYS.predicate_time)) > int(before.pop(KEYS.predicate_time))
    assert after == before


def test_a_request_without_the_first_node_gets_another_node(mini: MiniCluster) -> None:
    created = mini.create(pod("one", 50, 32))
    assert mini.ask(created)["NodeNames"] == ["gpu1"]
    assert mini.ask(created, ["gpu2", "cpu1"])["NodeNames"] == ["gpu2"]
    assert mini.annotations("one")["tencent.com/predicate-gpu-uuid-0"] == "GPU-gpu2-0"
    assert (mini.free_cores("gpu1"), mini.free_cores("gpu2")) == (200, 150)


def test_a_request_after_a_card_failed_gets_another_card(mini: MiniCluster) -> None:
    created = mini.create(pod("one", 100))
    assert mini.ask(created, ["gpu1"])["NodeNames"] == ["gpu1"]
    broken = node("gpu1")
    devices = json.loads(broken["metadata"]["annotations"][KEYS.gpu_devices])
    devices["devices"][0].update(healthy=False, reason="XID 79")
    broken["metadata"]["annotations"][KEYS.gpu_devices] = json.dumps(devices)
    mini.api.edit("nodes", "gpu1", broken)
    eventually(lambda: not mini.service.cache.node("gpu1").cards[0].healthy)  # type: ignore[union-attr]
    assert mini.ask(created, ["gpu1"])["NodeNames"] == ["gpu1"]
    assert mini.annotations("one")["tencent.com/predicate-gpu-idx-0"] == "1"


def test_containers_and_sidecars_are_placed_each_by_its_position(mini: MiniCluster) -> None:
    gpu = {"limits": {KEYS.vcuda_core: "100"}}
    value = pod("many")
    value["spec"] = {
        "initContainers": [
            {"name": "log", "resources": {}},
            {"name": "side", "restartPolicy": "Always", "resources": gpu},
        ],
        "containers": [{"name": "web"}, {"name": "train", "resources": gpu}],
    }
    # An old scheduler doesn't know sidecars: the extender takes only the name from its pod.
    seen = json.loads(json.dumps(mini.create(value)))
    del seen["spec"]["initContainers"][1]["restartPolicy"]
    assert mini.ask(seen)["NodeNames"] == ["gpu1"]
    written = mini.annotations("many")
    cards = {
        written["tencent.com/predicate-gpu-idx-init-1"],
        written["tencent.com/predicate-gpu-idx-1"],
    }
    assert cards == {"0", "1"}
    assert "tencent.com/predicate-gpu-idx-0" not in written


def test_a_gated_pod_is_refused_before_anything_is_reserved(mini: MiniCluster) -> None:
    result = mini.place("gated", 50, 32, schedulingGates=[{"name": "quota"}])
    assert "schedulingGates" in result["Error"]
    assert mini.annotations("gated") == {}
    assert mini.free_cores("gpu1") == 200


def test_a_finished_pod_is_refused(mini: MiniCluster) -> None:
    created = mini.create({**pod("done", 50, 32), "status": {"phase": "Failed"}})
    assert "has finished" in mini.ask(created)["Error"]
    assert mini.annotations("done") == {}


def test_a_bound_pod_is_refused_and_keeps_its_cards(mini: MiniCluster) -> None:
    created = mini.create(pod("bound", 50, 32))
    mini.ask(created)
    mini.sees(mini.bind("bound", "gpu1"))
    assert "runs on node gpu1 already" in mini.ask(created)["Error"]
    assert mini.free_cores("gpu1") == 150


def test_a_pod_that_is_gone_is_an_error(mini: MiniCluster) -> None:
    gone = pod("never", 50, 32)
    gone["metadata"]["uid"] = "0000"
    assert "default/never with UID 0000 is gone" in mini.ask(gone)["Error"]


def test_another_pod_of_the_same_name_is_not_written_to(mini: MiniCluster) -> None:
    first, second = recreated(mini)
    assert "is gone" in mini.ask(first)["Error"]
    assert mini.api.get("pods", "p") == second
    assert mini.free_cores("gpu1") == 200


def test_a_pod_that_changes_all_the_time_is_given_up(mini: MiniCluster) -> None:
    mini.api.faults.fail("PATCH", "/pods/p/status$", status=409, times=10_000)
    result = mini.place("p", 50, 32)
    assert "pod default/p changed in each of 5 tries: API server answered 409" in result["Error"]
    assert len(mini.api.asked("PATCH", "/pods/p/status$")) == 5
    assert mini.free_cores("gpu1") == 200


def test_a_pod_that_the_watch_has_not_shown_is_read_once(mini: MiniCluster) -> None:
    mini.api.hold_watches()
    assert mini.place("early", 50, 32)["NodeNames"] == ["gpu1"]
    assert mini.place("next", 60, 32)["NodeNames"] == ["gpu1"]
    assert mini.annotations("next")["tencent.com/predicate-gpu-idx-0"] == "1"
    assert len(mini.api.asked("GET", "/pods/early$")) == 1


def test_an_unknown_node_is_named_so(mini: MiniCluster) -> None:
    result = mini.ask(mini.create(pod("p", 50, 32)), ["gpu9", "gpu2"])
    assert result["NodeNames"] == ["gpu2"]
    assert result["FailedNodes"] == {"gpu9": "NodeUnknown: the node is not known to gpustack yet"}


def test_a_request_without_nodes_is_answered_without_nodes(mini: MiniCluster) -> None:
    result = mini.ask(mini.create(pod("p", 50, 32)), [])
    assert result["NodeNames"] == []
    assert result["Error"] == ""


def test_cards_that_a_user_wrote_for_other_containers_are_removed(mini: MiniCluster) -> None:
    forged = {
        "tencent.com/predicate-gpu-idx-7": "0",
        "tencent.com/predicate-node": "gpu2",
        "app": "kept",
    }
    assert mini.place("forged", 50, 32, annotations=forged)["NodeNames"] == ["gpu1"]
    written = mini.annotations("forged")
    assert "tencent.com/predicate-gpu-idx-7" not in written
    assert written["app"] == "kept"
    assert written[KEYS.predicate_node] == "gpu1"
