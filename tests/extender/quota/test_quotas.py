"""The quota of a namespace: one decision at a time, by any verb, and a ConfigMap that breaks."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack.model.quota.quota import NamespaceQuota, Quota
from tests.cli import snapshots
from tests.extender.calls import at_once, bind
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, node, pod, serving
from tests.fakes.kube_api import FakeKubeApi

THREADS = 100


@pytest.fixture
def roomy(api: FakeKubeApi, tmp_path: Path) -> Iterator[MiniCluster]:
    """Eight cards; the namespace may have two and a half."""
    api.create("nodes", node("gpu1", 8))
    with serving(api, tmp_path, threads=THREADS) as mini:
        limit = NamespaceQuota(cards={"A100": 250})
        mini.service.cache.set_quota(Quota(namespaces={"default": limit}))
        yield mini


@pytest.mark.parametrize("verb", ["predicates", "bind"])
def test_a_hundred_pods_at_once_get_no_more_than_the_quota(roomy: MiniCluster, verb: str) -> None:
    asked = [roomy.create(pod(f"p{i}", 50, 32)) for i in range(THREADS)]

    def ask(value: dict[str, Any]) -> str:
        if verb == "bind":
            return bind(roomy, value, "gpu1")
        result = roomy.ask(value, ["gpu1"])
        return str(result["Error"] or result["FailedNodes"].get("gpu1", ""))

    errors = at_once([functools.partial(ask, value) for value in asked])
    assert errors.count("") == 5
    assert roomy.free_cores("gpu1") == 550
    assert all("QuotaExceeded" in error for error in errors if error)


def test_a_reserved_pod_counts_and_a_finished_one_does_not(roomy: MiniCluster) -> None:
    roomy.place("one", 200)
    assert roomy.place("two", 100)["FailedNodes"]["gpu1"].startswith("QuotaExceeded")
    roomy.api.edit("pods", "one", {"status": {"phase": "Succeeded"}})
    eventually(lambda: roomy.free_cores("gpu1") == 800)
    assert roomy.place("three", 100)["NodeNames"] == ["gpu1"]


def test_a_repeated_request_counts_once_in_the_quota(roomy: MiniCluster) -> None:
    created = roomy.create(pod("one", 200))
    for _ in range(3):
        assert roomy.ask(created)["NodeNames"] == ["gpu1"]


def test_a_pod_whose_quota_shrank_is_refused(roomy: MiniCluster) -> None:
    created = roomy.create(pod("one", 200))
    assert roomy.ask(created)["NodeNames"] == ["gpu1"]
    roomy.service.cache.set_quota(
        Quota(namespaces={"default": NamespaceQuota(cards={"A100": 100})})
    )
    answer = roomy.ask(created)
    assert answer["NodeNames"] == []
    assert answer["FailedNodes"]["gpu1"].startswith("QuotaExceeded")


def test_the_event_of_a_refusal_names_the_pods_in_the_quota(roomy: MiniCluster) -> None:
    roomy.place("one", 200)
    roomy.place("two", 100)

    def told() -> list[str]:
        events = roomy.api.events()
        return [e["message"] for e in events if e["reason"] == "QuotaExceeded"]

    eventually(lambda: bool(told()))
    assert "holds 2 of its 2.5 A100 cards (one 2)" in told()[0]


def test_no_config_map_is_no_quota_and_a_new_one_holds_at_once(roomy: MiniCluster) -> None:
    roomy.service.quotas.take(None)
    assert roomy.place("one", 700)["NodeNames"] == ["gpu1"]
    roomy.service.quotas.take(snapshots.quota('{"default": {"quota": {"A100": 1}}}'))
    assert roomy.place("two", 50, 32)["FailedNodes"]["gpu1"].startswith("QuotaExceeded")


def test_a_broken_config_map_keeps_the_last_good_one(roomy: MiniCluster) -> None:
    roomy.service.quotas.take(snapshots.quota('{"default": {"quota": {"A100": 1}}}'))
    roomy.service.quotas.take(snapshots.quota("{"))
    assert "is not JSON" in roomy.service.quotas.problem
    assert roomy.place("one", 100)["NodeNames"] == ["gpu1"]
    assert roomy.place("two", 50, 32)["FailedNodes"]["gpu1"].startswith("QuotaExceeded")


def test_a_config_map_that_is_broken_from_the_beginning_lifts_no_limit(
    api: FakeKubeApi, tmp_path: Path
) -> None:
    api.create("nodes", node("gpu1"))
    api.create("configmaps", snapshots.quota('{"default": {"pools": []}}'))
    with serving(api, tmp_path) as mini:
        place = "ConfigMap kube-system/gpuquota: data.gpu_quota: default: pools is not known"
        assert place in mini.place("one", 100)["Error"]
        api.edit("configmaps", "gpuquota", {"data": {"gpu_quota": "{}"}}, "kube-system")
        eventually(lambda: not mini.service.quotas.problem)
        assert mini.place("two", 100)["NodeNames"] == ["gpu1"]
