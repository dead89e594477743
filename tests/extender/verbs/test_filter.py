"""The verbs filter and prioritize: which nodes, in which order, and without a change."""

import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from extender.verbs.prioritize import scores as score
from gpustack.model.equivalence import NodeResult
from gpustack.model.refusal import Reason
from tests.extender.api.test_recorded import defaulted, full_nodes
from tests.extender.calls import args, bound, filter_nodes, post, scores
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, LEAVING, MiniCluster, limits, node, pod, serving
from tests.fakes.kube_api import FakeKubeApi

WORDS = {
    "core": "InsufficientCore: no GPU has enough free vcuda-core",
    "cards": "NoCards: the node has no GPU",
    "unknown": "NodeUnknown: the node is not known to gpustack yet",
    "bad": "BadRequest: the pod's GPU request is invalid",
}


def test_fitting_nodes_remain_and_the_others_have_fixed_reasons(
    mini: MiniCluster,
) -> None:
    bound(mini, "full", "gpu1", 200)
    result = filter_nodes(mini, mini.create(pod("p", 60, 32)), ["cpu1", "gpu1", "gpu2", "gpu9"])
    assert result["NodeNames"] == ["gpu2"]
    assert result["FailedNodes"] == {}
    assert result["FailedAndUnresolvableNodes"] == {
        "cpu1": WORDS["cards"],
        "gpu1": WORDS["core"],
        "gpu9": WORDS["unknown"],
    }
    assert result["Error"] == ""
    assert result["Nodes"] is None


def test_filter_and_prioritize_change_nothing(mini: MiniCluster) -> None:
    created = mini.create(pod("p", 100))
    first = filter_nodes(mini, created)
    for _ in range(3):
        assert filter_nodes(mini, created) == first
        scores(mini, created)
    assert first["NodeNames"] == ["gpu1", "gpu2"]
    assert mini.free_cores("gpu1") == mini.free_cores("gpu2") == 200
    assert mini.service.cache.reservations == 0
    assert mini.api.get("pods", "p") == created
    assert [r for r in mini.api.requests if r.method != "GET"] == []


def test_a_pod_that_fits_nowhere_gets_an_event_and_is_woken(
    mini: MiniCluster,
) -> None:
    bound(mini, "a", "gpu1", 200)
    bound(mini, "b", "gpu2", 200)
    result = filter_nodes(mini, mini.create(pod("p", 60, 32)))
    assert result["NodeNames"] == []
    assert result["FailedAndUnresolvableNodes"]["gpu1"] == WORDS["core"]
    eventually(lambda: any(e["reason"] == "InsufficientCore" for e in mini.api.events()))
    assert KEYS.gpu_retry not in mini.annotations("p")
    mini.api.delete("pods", "a")
    eventually(lambda: KEYS.gpu_retry in mini.annotations("p"))


@pytest.mark.parametrize("form", ["Nodes", "NodeNames"])
def test_a_pod_without_gpu_gets_its_nodes_back_untouched(mini: MiniCluster, form: str) -> None:
    given: dict[str, Any] = {"Nodes": full_nodes(), "NodeNames": ["cpu1", "elsewhere"]}
    body = {"Pod": mini.create(pod("p")), form: given[form]}
    result = post(mini, "filter", body)
    assert result[form] == given[form]
    assert not result["FailedAndUnresolvableNodes"]


def test_a_full_list_is_answered_with_full_nodes(mini: MiniCluster) -> None:
    nodes = full_nodes()
    body = {"Pod": mini.create(defaulted(50, 32)), "Nodes": nodes, "NodeNames": None}
    result = post(mini, "filter", body)
    assert result["Nodes"]["items"] == nodes["items"][:2]
    assert result["NodeNames"] is None


def test_a_bad_request_is_refused_everywhere_and_an_event_names_the_field(
    mini: MiniCluster,
) -> None:
    result = filter_nodes(mini, mini.create(pod("p", 150, 32)))
    expected = dict.fromkeys(["cpu1", "gpu1", "gpu2"], WORDS["bad"])
    assert result["FailedAndUnresolvableNodes"] == expected
    eventually(lambda: bool(mini.api.events()))
    assert "spec.containers[0]" in mini.api.events()[0]["message"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": {"phase": "Succeeded"}}, "has finished"),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, "schedulingGates"),
        ({"spec": {"nodeName": "gpu1"}}, "runs on node gpu1 already"),
        (LEAVING, "is being deleted"),
    ],
)
def test_a_pod_that_may_not_be_placed_is_an_error(
    mini: MiniCluster, change: dict[str, Any], words: str
) -> None:
    mini.api.hold_watches()
    mini.create(pod("p", 50, 32))
    result = filter_nodes(mini, mini.api.edit("pods", "p", change))
    assert words in result["Error"]
    assert result["NodeNames"] is None


def test_the_watch_adds_a_sidecar_that_an_old_body_lacks(mini: MiniCluster) -> None:
    value = pod("p", 100)
    value["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"limits": limits(200)}}
    ]
    created = mini.create(value)
    seen = json.loads(json.dumps(created))
    del seen["spec"]["initContainers"]
    assert filter_nodes(mini, seen)["NodeNames"] == []


def test_a_pods_own_reservation_is_free_to_it(mini: MiniCluster) -> None:
    created = mini.create(pod("p", 200))
    assert mini.ask(created)["NodeNames"] == ["gpu1"]
    assert filter_nodes(mini, created)["NodeNames"] == ["gpu1", "gpu2"]


def test_a_nominated_pod_keeps_its_node_from_lower_pods(mini: MiniCluster) -> None:
    first = {**pod("first", 200, priority=100), "status": {"nominatedNodeName": "gpu1"}}
    mini.sees(mini.create(first))
    low = mini.create(pod("low", 50, 32, priority=0))
    high = mini.create(pod("high", 50, 32, priority=200))
    assert filter_nodes(mini, low)["NodeNames"] == ["gpu2"]
    assert filter_nodes(mini, high)["NodeNames"] == ["gpu1", "gpu2"]


def test_a_node_without_a_name_is_unknown(mini: MiniCluster) -> None:
    result = filter_nodes(mini, mini.create(pod("p", 50, 32)), ["", "nowhere"])
    assert result["FailedNodes"] == {}
    assert list(result["FailedAndUnresolvableNodes"]) == ["", "nowhere"]


def test_a_node_whose_victims_are_ending_is_resolvable(mini: MiniCluster) -> None:
    bound(mini, "victim", "gpu1", 200)
    bound(mini, "other", "gpu2", 200)
    value = {**pod("p", 100, priority=100), "status": {"nominatedNodeName": "gpu1"}}
    created = mini.create(value)
    before = filter_nodes(mini, created)
    assert set(before["FailedAndUnresolvableNodes"]) == {"cpu1", "gpu1", "gpu2"}
    mini.sees(mini.end("victim"))
    result = filter_nodes(mini, created)
    assert set(result["FailedNodes"]) == {"gpu1"}
    assert set(result["FailedAndUnresolvableNodes"]) == {"cpu1", "gpu2"}


def test_the_fuller_node_scores_ten_and_a_refused_node_zero(mini: MiniCluster) -> None:
    bound(mini, "a", "gpu2", 50, 32)
    created = mini.create(pod("p", 50, 32))
    assert scores(mini, created) == {"cpu1": 0, "gpu1": 1, "gpu2": 10}


@pytest.mark.parametrize("text", ["spread", "node=spread,card=binpack"])
def test_a_pod_that_wants_to_spread_prefers_the_emptier_node(mini: MiniCluster, text: str) -> None:
    bound(mini, "a", "gpu2", 50, 32)
    created = mini.create(pod("p", 50, 32, annotations={KEYS.gpu_placement: text}))
    assert scores(mini, created) == {"cpu1": 0, "gpu1": 10, "gpu2": 1}


def test_the_configured_policy_decides(api: FakeKubeApi, tmp_path: Path) -> None:
    for name in ("gpu1", "gpu2"):
        api.create("nodes", node(name))
    with serving(api, tmp_path, policy="spread") as mini:
        bound(mini, "a", "gpu2", 50, 32)
        assert scores(mini, mini.create(pod("p", 50, 32))) == {"gpu1": 10, "gpu2": 1}


def test_nodes_that_are_alike_score_the_same(mini: MiniCluster) -> None:
    assert scores(mini, mini.create(pod("p", 50, 32))) == {"cpu1": 0, "gpu1": 10, "gpu2": 10}


@pytest.mark.parametrize("path", ["prioritize", "priorities"])
def test_a_pod_without_gpu_is_steered_away_from_gpu_nodes(mini: MiniCluster, path: str) -> None:
    body = args(mini, mini.create(pod("p")), ["cpu1", "gpu1", "new"])
    assert post(mini, path, body) == [
        {"Host": "cpu1", "Score": 10},
        {"Host": "gpu1", "Score": 0},
        {"Host": "new", "Score": 10},
    ]


def test_scores_of_full_lists_name_the_hosts(mini: MiniCluster) -> None:
    body = {"Pod": mini.create(pod("p", 50, 32)), "Nodes": full_nodes()}
    hosts = [entry["Host"] for entry in post(mini, "prioritize", body)]
    assert hosts == ["gpu1", "gpu2", "cpu1"]


def test_a_bad_request_scores_nothing(mini: MiniCluster) -> None:
    assert set(scores(mini, mini.create(pod("p", 150, 32))).values()) == {0}


def test_scores_of_a_pod_that_is_gone_are_unavailable(mini: MiniCluster) -> None:
    gone = pod("p", 50, 32)
    gone["metadata"]["uid"] = "0"
    result = post(mini, "prioritize", args(mini, gone, ["gpu1"]), status=503)
    assert "is gone" in result["Error"]


@hypothesis.given(st.lists(st.none() | st.integers(0, 30)))
def test_scores_follow_the_ranks(ranks: list[int | None]) -> None:
    answers = {
        NodeResult(reason=Reason.NO_CARDS if rank is None else None, rank=(0, (rank or 0,))): rank
        for rank in ranks
    }
    found = score(answers)
    fitting = {each: rank for each, rank in answers.items() if rank is not None}
    assert found.keys() == answers.keys()
    assert all(found[each] == 0 for each in answers.keys() - fitting.keys())
    assert all(1 <= found[each] <= 10 for each in fitting)
    assert all(found[one] >= found[two] for one in fitting for two in fitting
               if fitting[one] <= fitting[two])  # fmt: skip
    assert not fitting or max(found.values()) == 10
