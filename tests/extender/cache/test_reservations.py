"""The times at which cards are taken, and free again."""

import functools
import time
from pathlib import Path

import pytest

from gpustack.model import units
from tests.extender.calls import at_once
from tests.extender.client import eventually
from tests.extender.mini_cluster import (
    KEYS,
    MiniCluster,
    node,
    original_node,
    pod,
    serving,
    unschedulable,
)
from tests.fakes.kube_api import FakeKubeApi


def decision(name: str, minor: int, time_ns: int) -> dict[str, str]:
    return {
        KEYS.predicate_node: name,
        KEYS.predicate_time: str(time_ns),
        KEYS.gpu_assigned: "false",
        "tencent.com/predicate-gpu-idx-0": str(minor),
    }


def test_a_decision_counts_before_the_watch_shows_it(mini: MiniCluster) -> None:
    mini.api.hold_watches()
    mini.place("one", 100)
    assert mini.place("two", 100)["NodeNames"] == ["gpu1"]
    assert mini.annotations("two")["tencent.com/predicate-gpu-idx-0"] == "1"
    assert mini.place("three", 100)["NodeNames"] == ["gpu2"]


def test_a_deleted_pod_frees_its_cards(mini: MiniCluster) -> None:
    mini.place("one", 200)
    mini.place("two", 200)
    assert mini.place("three", 200)["NodeNames"] == []
    mini.api.delete("pods", "one")
    eventually(lambda: mini.free_cores("gpu1") == 200)
    assert mini.place("four", 200)["NodeNames"] == ["gpu1"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_frees_its_cards(mini: MiniCluster, phase: str) -> None:
    mini.place("one", 200)
    mini.bind("one", "gpu1")
    mini.api.edit("pods", "one", {"status": {"phase": phase}})
    eventually(lambda: mini.free_cores("gpu1") == 200)


def test_a_terminating_pod_keeps_its_cards(mini: MiniCluster) -> None:
    mini.place("one", 200)
    mini.bind("one", "gpu1")
    mini.sees(mini.end("one"))
    assert mini.free_cores("gpu1") == 0


def test_a_pod_resized_in_cpu_keeps_its_cards(mini: MiniCluster) -> None:
    mini.place("one", 50, 32)
    made = mini.bind("one", "gpu1")
    before = mini.annotations("one")
    [main] = made["spec"]["containers"]
    for cpu in ("1", "4"):
        resized = {**main, "resources": {"limits": {**main["resources"]["limits"], "cpu": cpu}}}
        mini.sees(mini.api.edit("pods", "one", {"spec": {"containers": [resized]}}))
        assert mini.free_cores("gpu1") == 150
        assert mini.annotations("one") == before


def test_a_pod_bound_elsewhere_frees_what_was_reserved(mini: MiniCluster) -> None:
    mini.place("one", 200)
    mini.bind("one", "gpu2")
    eventually(lambda: mini.free_cores("gpu1") == 200)
    assert mini.free_cores("gpu2") == 200  # the agent places it, or refuses it


@pytest.mark.parametrize(("seconds", "free"), [(20, 100), (40, 200)])
def test_a_pod_refused_before_the_start_holds_no_cards(
    api: FakeKubeApi, tmp_path: Path, seconds: float, free: int
) -> None:
    api.create("nodes", node("gpu1"))
    given_up = {**pod("one", 100), **unschedulable("0/3 nodes", seconds_from_now=seconds)}
    given_up["metadata"]["annotations"] = decision("gpu1", 0, time.time_ns())
    api.create("pods", given_up)
    with serving(api, tmp_path) as mini:
        assert mini.free_cores("gpu1") == free


def test_an_earlier_refusal_does_not_end_a_reservation(mini: MiniCluster) -> None:
    created = mini.create({**pod("one", 200), **unschedulable("0/3 nodes")})
    mini.ask(created)
    mini.api.edit("pods", "one", {"metadata": {"labels": {"seen": "yes"}}})
    mini.place("two", 200)
    assert (mini.free_cores("gpu1"), mini.free_cores("gpu2")) == (0, 0)


def test_a_reservation_ends_by_age_and_a_bound_pod_keeps_its_cards(
    api: FakeKubeApi, tmp_path: Path
) -> None:
    api.create("nodes", node("gpu1"))
    with serving(api, tmp_path, reservation_seconds=0.5) as mini:
        mini.place("bound", 100)
        mini.bind("bound", "gpu1")
        mini.place("reserved", 100)
        assert mini.free_cores("gpu1") == 0
        eventually(lambda: mini.free_cores("gpu1") == 100)
        assert mini.service.cache.reservations == 0


def test_a_restart_rebuilds_from_annotations(api: FakeKubeApi, tmp_path: Path) -> None:
    api.create("nodes", node("gpu1"))
    with serving(api, tmp_path) as mini:
        mini.place("bound", 100)
        mini.bind("bound", "gpu1")
        mini.place("reserved", 50, 32)
    with serving(api, tmp_path) as mini:
        assert mini.free_cores("gpu1") == 50
        assert mini.service.cache.reservations == 1
        assert mini.place("third", 60, 32)["NodeNames"] == []
        assert mini.place("fourth", 50, 32)["NodeNames"] == ["gpu1"]


@pytest.mark.parametrize(
    ("core", "memory", "changes"),
    [
        (200, None, {}),  # one card for a pod that asks for two
        (None, None, {}),  # a pod that asks for nothing
        (50, 32, {KEYS.predicate_time: "soon"}),
        (50, 32, {KEYS.predicate_time: str(time.time_ns() - 901 * 10**9)}),  # too old
        (50, 32, {"tencent.com/predicate-gpu-idx-0": "-1"}),
        (50, 32, {"tencent.com/predicate-gpu-idx-0": "0,1"}),
    ],
)
def test_a_decision_that_the_pod_does_not_justify_holds_nothing(
    mini: MiniCluster, core: object, memory: object, changes: dict[str, str]
) -> None:
    written = {**decision("gpu1", 0, time.time_ns()), **changes}
    mini.sees(mini.create(pod("forged", core, memory, annotations=written)))
    assert mini.free_cores("gpu1") == 200


def test_a_valid_decision_of_another_instance_is_respected(mini: MiniCluster) -> None:
    written = decision("gpu1", 1, time.time_ns())
    mini.sees(mini.create(pod("theirs", 100, annotations=written)))
    mini.place("ours", 100)
    assert mini.annotations("ours")["tencent.com/predicate-gpu-idx-0"] == "0"


def test_the_agents_correction_moves_the_cards(mini: MiniCluster) -> None:
    mini.place("one", 50, 32)
    mini.bind("one", "gpu1")
    corrected = {
        "tencent.com/predicate-gpu-idx-0": "1",
        "tencent.com/predicate-gpu-uuid-0": "GPU-gpu1-1",
    }
    mini.api.edit("pods", "one", {"metadata": {"annotations": corrected}})
    eventually(lambda: mini.service.cache.node("gpu1").free_cores(1) == 50)  # type: ignore[union-attr]
    assert mini.free_cores("gpu1") == 150


def test_pods_of_a_node_that_returns_still_hold_their_cards(mini: MiniCluster) -> None:
    mini.place("one", 100)
    mini.api.delete("nodes", "gpu1")
    eventually(lambda: mini.service.cache.node("gpu1") is None)
    mini.api.create("nodes", node("gpu1"))
    eventually(lambda: mini.service.cache.node("gpu1") is not None)
    assert mini.free_cores("gpu1") == 100


def test_a_broken_node_annotation_is_a_node_without_cards(mini: MiniCluster) -> None:
    mini.api.edit("nodes", "gpu1", {"metadata": {"annotations": {KEYS.gpu_devices: "{"}}})
    eventually(lambda: not mini.service.cache.node("gpu1").cards)  # type: ignore[union-attr]
    result = mini.place("p", 50, 32)
    assert result["NodeNames"] == ["gpu2"]
    assert result["FailedNodes"]["gpu1"] == "NoCards: the node has no GPU"


def test_a_node_of_the_original_manager_has_equal_cards(mini: MiniCluster) -> None:
    mini.api.create("nodes", original_node("old"))
    eventually(lambda: mini.service.cache.node("old") is not None)
    created = mini.create(pod("p", 50, 32))
    assert mini.ask(created, ["old"])["NodeNames"] == ["old"]
    assert "tencent.com/predicate-gpu-uuid-0" not in mini.annotations("p")


def test_a_repeated_list_keeps_later_decisions(mini: MiniCluster) -> None:
    mini.place("gone", 100)
    mini.api.hold_watches()
    created = mini.create(pod("new", 100))
    held = mini.api.faults.hold("GET", "/pods$")
    mini.api.delete("pods", "gone")
    mini.api.store.compact()
    mini.api.drop_connections()
    mini.api.release_watches()
    assert held.reached.wait(10)
    assert mini.ask(created, ["gpu1"])["NodeNames"] == ["gpu1"]
    held.release()
    eventually(lambda: mini.free_cores("gpu1") == 100)
    assert mini.annotations("new")["tencent.com/predicate-gpu-idx-0"] == "1"


def test_a_refused_pod_is_woken_when_room_appears(mini: MiniCluster) -> None:
    mini.place("one", 200)
    mini.place("two", 200)
    mini.place("waiting", 100)
    assert KEYS.gpu_retry not in mini.annotations("waiting")
    mini.api.delete("pods", "one")
    eventually(lambda: KEYS.gpu_retry in mini.annotations("waiting"))
    assert mini.annotations("waiting")[KEYS.gpu_retry].isdigit()


def test_fifty_threads_never_give_a_card_twice(mini: MiniCluster) -> None:
    asked = [mini.create(pod(f"p{i}", 30, 100)) for i in range(50)]
    answers = at_once([functools.partial(mini.ask, value) for value in asked])
    assert not any(answer["Error"] for answer in answers)
    placed = [
        value["metadata"]["name"]
        for value, answer in zip(asked, answers, strict=True)
        if answer["NodeNames"]
    ]
    assert len(placed) == 12  # three fit on each of four cards, by cores and by memory
    taken: dict[str, int] = {}
    for name in placed:
        card = mini.annotations(name)["tencent.com/predicate-gpu-uuid-0"]
        taken[card] = taken.get(card, 0) + 30
    assert all(cores <= units.CORES_PER_CARD for cores in taken.values())


def test_a_bound_pod_counts_beside_a_container_of_memory_alone(
    mini: MiniCluster,
) -> None:
    running = pod("old", 50, 32, annotations=decision("gpu1", 0, 1), nodeName="gpu1")
    running["spec"]["containers"].append(
        {"name": "beside", "resources": {"limits": {KEYS.vcuda_memory: "8"}}}
    )
    free = mini.free_cores("gpu1")
    mini.api.create("pods", running)
    eventually(lambda: mini.free_cores("gpu1") == free - 50)
