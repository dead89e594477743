"""The quota's ConfigMap comes, changes, breaks and goes while pods are placed."""

import json
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from extender.settings import QuotaSource
from gpustack.model.refusal import Reason
from tests.cli import snapshots
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster, node, pod, serving, unschedulable
from tests.fakes.kube_api import FakeKubeApi

NAMESPACE, NAME = "kube-system", "gpuquota"
LIMITED = {"default": {"quota": {"A100": 0.5}, "pool": []}}


def set_quota(mini: MiniCluster, quota: object) -> None:
    text = quota if isinstance(quota, str) else json.dumps(quota)
    if mini.api.store.list("configmaps")[1]:
        mini.api.edit("configmaps", NAME, {"data": {"gpu_quota": text}}, NAMESPACE)
    else:
        mini.api.create("configmaps", snapshots.quota(text))


def in_force(mini: MiniCluster, namespace: str = "default") -> bool:
    return mini.service.cache.quota.of(namespace) is not None


def metrics(mini: MiniCluster) -> dict[str, float]:
    """Return every sample by its name and labels' values."""
    text = mini.call("GET", "/metrics").raw.decode()
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def refused(mini: MiniCluster, name: str) -> bool:
    return bool(mini.place(name, 50, 32)["NodeNames"] is None)


def test_a_quota_holds_from_its_creation_to_its_deletion(mini: MiniCluster) -> None:
    assert mini.place("first", 50, 32)["NodeNames"]
    set_quota(mini, LIMITED)
    eventually(lambda: in_force(mini))
    result = mini.place("second", 50, 32)
    assert "QuotaExceeded" in json.dumps(result)
    mini.api.delete("configmaps", NAME, NAMESPACE)
    eventually(lambda: not in_force(mini))
    assert mini.place("third", 50, 32)["NodeNames"]


def test_an_earlier_quota_holds_from_the_first_decision(api: FakeKubeApi, tmp_path: Path) -> None:
    api.create("nodes", node("gpu1"))
    api.create("configmaps", snapshots.quota(json.dumps(LIMITED)))
    held = api.faults.hold("GET", "/configmaps$")
    with serving(api, tmp_path, wait=False) as mini:
        eventually(lambda: "list of quota" in mini.call("GET", "/readyz").raw.decode())
        held.release()
        eventually(lambda: mini.call("GET", "/readyz").status == 200)
        assert in_force(mini)


def test_only_the_one_config_map_is_asked_for(mini: MiniCluster) -> None:
    asked = mini.api.asked("GET", "/configmaps")
    assert asked
    assert all(f"/namespaces/{NAMESPACE}/" in request.path for request in asked)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("{", "is not JSON"),
        ({"default": {"quota": {"A100": -1}}}, "default.quota.A100"),
        ({"default": {"pools": ["x"]}}, "pools"),
    ],
)
def test_a_broken_quota_keeps_the_last_good_one_with_an_event(
    mini: MiniCluster, broken: object, words: str
) -> None:
    set_quota(mini, LIMITED)
    eventually(lambda: in_force(mini))
    assert metrics(mini)["gpustack_quota_config_valid"] == 1
    set_quota(mini, broken)
    eventually(lambda: metrics(mini)["gpustack_quota_config_valid"] == 0)
    assert in_force(mini)
    eventually(lambda: bool(mini.api.events()))
    (event,) = mini.api.events()
    assert event["involvedObject"]["kind"] == "ConfigMap"
    assert event["metadata"]["namespace"] == NAMESPACE
    assert event["reason"] == "QuotaUnreadable"
    assert words in event["message"]
    assert "the last quota that could be used stays in force" in event["message"]
    set_quota(mini, LIMITED)
    eventually(lambda: metrics(mini)["gpustack_quota_config_valid"] == 1)


def test_a_broken_quota_refuses_pods_where_the_operator_wants_that(
    api: FakeKubeApi, tmp_path: Path
) -> None:
    api.create("nodes", node("gpu1"))
    api.create("configmaps", snapshots.quota("{"))
    api.create("pods", pod("waiting", 50, 32) | unschedulable("0/1 nodes are available"))
    source = QuotaSource(namespace=NAMESPACE, name=NAME, deny=True)
    with serving(api, tmp_path, quota=source) as mini:
        assert "quota can't be used" in mini.place("p", 50, 32)["Error"]
        assert mini.ask(mini.create(pod("plain")), ["gpu1"])["NodeNames"] == ["gpu1"]
        assert len(mini.service.requeue._waiting) == 1
        assert mini.service.requeue._look() == []  # all pods are refused
        set_quota(mini, {})
        eventually(lambda: not mini.service.quotas.problem)
        assert mini.place("q", 50, 32)["NodeNames"] == ["gpu1"]
        eventually(lambda: KEYS.gpu_retry in mini.annotations("waiting"))


def test_metrics_show_limits_and_use_of_the_listed_namespaces_only(mini: MiniCluster) -> None:
    set_quota(mini, {"default": {"quota": {"A100": 2.5, "T4": 1}}, "other": {"quota": {}}})
    eventually(lambda: in_force(mini, "other"))
    mini.place("p", 50, 32)
    mini.place("q", 100)
    found = metrics(mini)
    assert found["gpustack_quota_limit_cards A100 default"] == 2.5
    assert found["gpustack_quota_used_cards A100 default"] == 1.5
    assert found["gpustack_quota_used_cards T4 default"] == 0
    assert not [name for name in found if " other" in name]


def test_metrics_show_free_and_unusable_cards_of_nodes(mini: MiniCluster) -> None:
    mini.create(pod("waits", 200))
    mini.place("p", 50, 32)
    found = metrics(mini)
    free = [found[f"gpustack_node_free_cards gpu{index}"] for index in (1, 2)]
    used = [found[f"gpustack_node_used_cards gpu{index}"] for index in (1, 2)]
    assert sorted(free) == [1.5, 2.0]
    assert sorted(used) == [0.0, 0.5]
    units = 268435456
    memory = [found[f"gpustack_node_used_memory_bytes gpu{index}"] for index in (1, 2)]
    assert sorted(memory) == [0, 32 * units]
    assert "gpustack_node_free_cards cpu1" not in found
    # The waiting pod needs two whole cards, and the node in use has only one.
    fragmented = [found[f"gpustack_node_fragmented_cards gpu{index}"] for index in (1, 2)]
    assert min(fragmented) == 0
    assert max(fragmented) > 0
    assert found["gpustack_fragmentation_ratio"] == pytest.approx(sum(fragmented) / 3.5)


def test_metrics_count_waiting_pods_by_reason(mini: MiniCluster) -> None:
    def waiting() -> dict[str, float]:
        name = "gpustack_extender_waiting_pods "
        found = {k.removeprefix(name): v for k, v in metrics(mini).items() if k.startswith(name)}
        assert set(found) == {"Undecided", *Reason}
        return {reason: count for reason, count in found.items() if count}

    gated = pod("gated", 200)
    gated["spec"]["schedulingGates"] = [{"name": "later"}]
    for value in (gated, pod("never-asked", 200), pod("without-memory", 50)):
        mini.create(value)
    mini.create({**pod("ended", 200), "status": {"phase": "Failed"}})
    mini.place("takes-one-node", 200)
    mini.place("takes-another", 50, 32)
    for name in ("finds-none", "neither"):
        mini.place(name, 200)
    eventually(lambda: sum(waiting().values()) == 5)
    expected = {"Undecided": 1, "SchedulingGated": 1, "BadRequest": 1, "NoWholeCard": 2}
    assert waiting() == expected
    mini.api.delete("pods", "neither")
    eventually(lambda: waiting() == {**expected, "NoWholeCard": 1})


def test_a_second_fault_of_the_quota_gets_an_event_at_once(mini: MiniCluster) -> None:
    set_quota(mini, "{")
    set_quota(mini, {"default": {"pools": []}})
    eventually(lambda: len(mini.api.events()) == 2)
    assert "pools" in mini.api.events()[1]["message"]


def read_metrics(mini: MiniCluster, accept: str) -> tuple[str, str]:
    """Return the content type and the text."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{mini.port}/metrics", headers={"Accept": accept}
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_metrics_are_openmetrics_on_request(mini: MiniCluster) -> None:
    mini.place("p", 50, 32)
    kind, text = read_metrics(mini, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    families = openmetrics.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    found = {family.name: family.type for family in families}
    assert found["gpustack_extender_decisions"] == "counter"
    assert all(name.startswith("gpustack_") for name in found)


@pytest.mark.parametrize("asked", ["application/openmetrics-text;version=x", "text/plain", ""])
def test_metrics_are_plain_text_for_other_clients(mini: MiniCluster, asked: str) -> None:
    kind, text = read_metrics(mini, asked)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert "# EOF" not in text
    assert "# TYPE gpustack_extender_decisions_total counter\n" in text


def test_a_dead_watch_makes_the_extender_unready_and_reopens(
    api: FakeKubeApi, tmp_path: Path
) -> None:
    api.create("nodes", node("gpu1"))
    with serving(api, tmp_path, watch_idle_seconds=0.2, stale_seconds=0.5) as mini:
        fault = api.faults.fail("GET", "/pods$", status=500, times=10_000)
        api.drop_connections()
        # on a busy machine, nodes may be silent for a moment, too
        said = "has said nothing of pods for 0.5 s"
        eventually(lambda: said in mini.call("GET", "/readyz").raw.decode())
        assert mini.call("GET", "/readyz").status == 503
        assert "has said nothing" in mini.place("p", 50, 32)["Error"]
        fault.times = 0
        eventually(lambda: mini.call("GET", "/readyz").status == 200)
