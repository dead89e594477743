"""User keys choose cards for a waiting pod, and don't change a pod that has its cards."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpustack.wire.user_keys import names_of
from tests.extender.api.test_api import explained
from tests.extender.calls import bound, filter_nodes
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster, node, pod, serving
from tests.extender.quota.test_quota_watch import in_force, set_quota
from tests.fakes.kube_api import FakeKubeApi

LIMITED = {"default": {"quota": {"A100": 1}}}
USER_KEYS = names_of(KEYS)


def annotate(mini: MiniCluster, name: str, key: str, text: str | None = ",") -> dict[str, Any]:
    """Write a user key on a pod, and wait until the extender's watch shows it."""
    changed = mini.api.edit("pods", name, {"metadata": {"annotations": {key: text}}})
    return mini.sees(changed)


def events(mini: MiniCluster, reason: str = "UserKeyIgnored") -> list[dict[str, Any]]:
    return [each for each in mini.api.events() if each["reason"] == reason]


@pytest.mark.parametrize("key", USER_KEYS)
def test_a_bad_user_key_frees_no_card_of_a_bound_pod(mini: MiniCluster, key: str) -> None:
    bound(mini, "p", "gpu1", 200)
    annotate(mini, "p", key)
    assert mini.free_cores("gpu1") == 0
    result = filter_nodes(mini, mini.create(pod("next", 100)), ["gpu1"])
    assert result["NodeNames"] == []


@pytest.mark.parametrize("key", USER_KEYS)
def test_a_bad_user_key_frees_no_card_of_a_reserved_pod(mini: MiniCluster, key: str) -> None:
    assert mini.place("p", 200)["NodeNames"] == ["gpu1"]
    annotate(mini, "p", key)
    assert mini.free_cores("gpu1") == 0
    mini.sees(mini.bind("p", "gpu1"))
    assert mini.free_cores("gpu1") == 0


@pytest.mark.parametrize("key", USER_KEYS)
def test_a_bad_user_key_frees_no_quota(mini: MiniCluster, key: str) -> None:
    set_quota(mini, LIMITED)
    eventually(lambda: in_force(mini))
    bound(mini, "p", "gpu1", 100)
    annotate(mini, "p", key)
    result = filter_nodes(mini, mini.create(pod("next", 50, 32)))
    assert "QuotaExceeded" in json.dumps(result)


def test_an_extender_that_starts_later_counts_pods_with_bad_user_keys(
    api: FakeKubeApi, tmp_path: Path
) -> None:
    api.create("nodes", node("gpu1"))
    with serving(api, tmp_path) as first:
        bound(first, "p", "gpu1", 200)
    api.edit("pods", "p", {"metadata": {"annotations": {KEYS.gpu_model: "x" * 250_000}}})
    with serving(api, tmp_path) as second:
        assert second.free_cores("gpu1") == 0
        eventually(lambda: len(events(second)) == 1)


def test_a_bound_pod_gets_one_event_of_an_ignored_bad_user_key(mini: MiniCluster) -> None:
    bound(mini, "p", "gpu1", 100)
    annotate(mini, "p", KEYS.gpu_topology, "x" * 4000)
    eventually(lambda: len(events(mini)) == 1)
    annotate(mini, "p", "example.org/other", "1")
    annotate(mini, "p", KEYS.gpu_topology, "x" * 4000 + "y")
    bound(mini, "q", "gpu2", 100)
    annotate(mini, "q", KEYS.gpu_model, ",")
    eventually(lambda: len(events(mini)) == 2)
    first, second = events(mini)
    assert first["involvedObject"]["name"] == "p"
    assert f"metadata.annotations[{KEYS.gpu_topology}]" in first["message"]
    assert "ignored, because the pod is bound to node gpu1" in first["message"]
    assert len(first["message"]) < 400
    assert second["involvedObject"]["name"] == "q"


def test_a_bound_pod_with_a_bad_user_key_is_explained_with_it(mini: MiniCluster) -> None:
    bound(mini, "p", "gpu1", 100)
    annotate(mini, "p", KEYS.gpu_placement, "full")
    (note,) = explained(mini, "p")["notes"]
    assert "gpu-placement]: 'full' is not" in note
    assert "ignored, because the pod is bound" in note


@pytest.mark.parametrize("key", USER_KEYS)
def test_a_waiting_pod_is_refused_for_a_bad_user_key_by_name(mini: MiniCluster, key: str) -> None:
    asked = mini.create(pod("p", 50, 32, annotations={key: "," + "x" * 250_000}))
    result = filter_nodes(mini, asked)
    assert "BadRequest" in result["FailedAndUnresolvableNodes"]["gpu1"]
    eventually(lambda: len(events(mini, "BadRequest")) == 1)
    (event,) = events(mini, "BadRequest")
    assert f"metadata.annotations[{key}]" in event["message"]
    assert len(event["message"]) < 400
    annotate(mini, "p", key, None)
    assert filter_nodes(mini, mini.api.get("pods", "p"))["NodeNames"]


def test_a_waiting_pod_of_65_containers_is_refused_by_name(mini: MiniCluster) -> None:
    value = pod("p", 50, 32)
    value["spec"]["containers"] += [{"name": f"c{index}"} for index in range(64)]
    filter_nodes(mini, mini.create(value))
    eventually(lambda: len(events(mini, "BadRequest")) == 1)
    assert "65 containers" in events(mini, "BadRequest")[0]["message"]
