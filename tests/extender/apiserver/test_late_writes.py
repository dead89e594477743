"""A decision whose write is refused, lost, late, or overtaken by another write."""

import functools
import time
from pathlib import Path

import pytest

from gpustack.adapters.kube import KubeClient, KubeError
from tests.extender.calls import at_once
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster, pod


def test_a_write_that_is_refused_leaves_nothing_reserved(mini: MiniCluster) -> None:
    mini.api.faults.fail("PATCH", "/pods/p/status$", status=403, reason="Forbidden")
    created = mini.create(pod("p", 50, 32))
    assert "403" in mini.ask(created)["Error"]
    assert mini.free_cores("gpu1") == 200
    assert mini.ask(created)["NodeNames"] == ["gpu1"]


def test_a_write_without_an_answer_keeps_its_cards_and_is_repeated(mini: MiniCluster) -> None:
    mini.api.hold_watches()
    mini.api.faults.drop("PATCH", "/pods/p/status$", when="after", times=2)
    created = mini.create(pod("p", 50, 32))
    assert "PATCH" in mini.ask(created)["Error"]
    assert mini.free_cores("gpu1") == 150
    assert mini.ask(created)["NodeNames"] == ["gpu1"]
    assert mini.free_cores("gpu1") == 150


def test_a_write_whose_first_try_took_effect_is_not_repeated(
    mini: MiniCluster,
) -> None:
    mini.api.hold_watches()
    mini.api.faults.drop("PATCH", "/pods/p/status$", when="after")
    assert mini.place("p", 50, 32)["NodeNames"] == ["gpu1"]
    assert len(mini.api.asked("PATCH", "/pods/p/status$")) == 2  # the second one was a conflict
    assert mini.free_cores("gpu1") == 150


def test_requests_for_one_pod_run_in_turn_and_see_earlier_writes(
    mini: MiniCluster,
) -> None:
    created = mini.sees(mini.create(pod("p", 50, 32)))
    mini.api.hold_watches()
    nodes = ["gpu1", "gpu2"] * 4
    answers = at_once([functools.partial(mini.ask, created, [name]) for name in nodes])
    assert [answer["NodeNames"] for answer in answers] == [[name] for name in nodes]
    assert len(mini.api.asked("PATCH", "/pods/p/status$")) == len(nodes)
    assert mini.free_cores("gpu1") + mini.free_cores("gpu2") == 350


def test_a_pod_that_changed_unseen_is_read_again_before_the_write(
    mini: MiniCluster,
) -> None:
    mini.place("early", 30, 16)  # an instance that has just written relies on its watch
    created = mini.sees(mini.create(pod("p", 50, 32)))
    mini.api.hold_watches()
    mini.api.edit("pods", "p", {"metadata": {"labels": {"team": "a"}}})
    assert mini.ask(created)["NodeNames"] == ["gpu1"]
    assert mini.annotations("p")[KEYS.predicate_node] == "gpu1"
    assert len(mini.api.asked("PATCH", "/pods/p/status$")) == 2
    assert mini.free_cores("gpu1") == 120


def test_a_decision_that_another_instance_wrote_is_kept(mini: MiniCluster) -> None:
    created = mini.sees(mini.create(pod("p", 50, 32)))
    mini.api.faults.fail("PATCH", "/pods/p/status$", status=403, reason="Forbidden")
    assert "403" in mini.ask(created)["Error"]
    mini.api.hold_watches()
    written = {
        KEYS.predicate_time: str(time.time_ns()),
        KEYS.predicate_node: "gpu2",
        KEYS.gpu_assigned: "false",
        "tencent.com/predicate-gpu-idx-0": "1",
        "tencent.com/predicate-gpu-uuid-0": "GPU-gpu2-1",
    }
    mini.api.edit("pods", "p", {"metadata": {"annotations": written}})
    assert mini.ask(created)["NodeNames"] == ["gpu2"]
    assert mini.annotations("p")["tencent.com/predicate-gpu-idx-0"] == "1"
    assert mini.free_cores("gpu1") == 200


def test_a_write_that_comes_late_does_not_replace_a_newer_decision(
    mini: MiniCluster, tmp_path: Path
) -> None:
    created = mini.create(pod("p", 50, 32))
    mini.api.faults.drop("PATCH", "/pods/p/status$", times=2)
    assert "PATCH" in mini.ask(created, ["gpu1"])["Error"]
    assert mini.ask(created, ["gpu2"])["NodeNames"] == ["gpu2"]
    late = mini.api.asked("PATCH", "/pods/p/status$")[0].body
    client = KubeClient.from_kubeconfig(mini.api.write_kubeconfig(tmp_path / "late"))
    with pytest.raises(KubeError, match="409"):
        client.patch("/api/v1/namespaces/default/pods/p/status", late)
    assert mini.annotations("p")[KEYS.predicate_node] == "gpu2"


def test_a_slow_write_is_an_error_and_a_later_request_gets_its_cards(
    hurried: MiniCluster,
) -> None:
    held = hurried.api.faults.hold("PATCH", "/pods/slow/status$")
    created = hurried.create(pod("slow", 50, 32))
    assert "timed out" in hurried.ask(created)["Error"]
    assert hurried.free_cores("gpu1") == 150
    held.release()
    eventually(lambda: hurried.ask(created)["NodeNames"] == ["gpu1"])
    assert hurried.free_cores("gpu1") == 150
