"""Holds of the cache's lock are short: without a search, and in bounded pieces of work.

The cost of a hold is counted in looks at nodes, not in seconds: one takes 10 to 30 us.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extender.api.app import create_app
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.portions import PORTION
from extender.extender import Extender
from extender.requeue.requeue import Requeue
from extender.verbs.reserve import Reserver
from gpustack.model.node import Node
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Reason
from tests.extender.cache.metered import MeteredLock
from tests.extender.calls import bind, filter_nodes, preempt, scores
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, listening, node, pod, settings
from tests.extender.states import bound, known, view, waiting
from tests.fakes.kube_api import FakeKubeApi
from tests.model.machines import card
from tests.model.machines import pod as asking

NODES = 2 * PORTION + 10
MANY = 5 * PORTION
LIMITS = {"default": {"quota": {"A100": 10_000}}, "team": {"quota": {"A100": 1, "T4": 3}}}


@pytest.fixture
def metered(api: FakeKubeApi, tmp_path: Path, lock: MeteredLock) -> Iterator[MiniCluster]:
    """An extender of more nodes than a portion has, whose lock is metered."""
    for number in range(NODES):
        api.create("nodes", node(f"n{number:03d}", 1 + number % 3))
    quota = {"metadata": {"name": "gpuquota", "namespace": "kube-system"}}
    api.create("configmaps", {**quota, "data": {"gpu_quota": json.dumps(LIMITS)}})
    service = Extender(settings(api, tmp_path))
    any_lock: Any = lock
    service.cache.lock = any_lock
    with listening(create_app(service, request_limit_bytes=1 << 20)) as port:
        service.start()
        try:
            eventually(lambda: not service.unready)
            yield MiniCluster(api=api, service=service, port=port)
        finally:
            service.stop()


def test_no_request_holds_the_lock_for_a_search(metered: MiniCluster) -> None:
    large = metered.create(pod("large", 300))
    assert bind(metered, large, "n002") == ""
    assert bind(metered, metered.create(pod("small", 30, 16)), "n000") == ""
    for asked in (pod("share", 10, 8), pod("cards", 200), pod("too-many", 500)):
        value = metered.create(asked)
        filter_nodes(metered, value)
        scores(metered, value)
        metered.ask(value)
        name = value["metadata"]["name"]
        assert metered.call("GET", f"/v1/explain/default/{name}").status == 200
    vip = metered.create(pod("vip", 300, priority=10))
    assert preempt(metered, vip, {"n002": ["large"], "n000": ["small"]}) == {"n002": ["large"]}
    for path in ("/v1/cluster", "/v1/decisions", "/metrics", "/readyz"):
        assert metered.call("GET", path).status == 200


def test_a_pod_behind_nominated_pods_is_answered_without_the_lock(metered: MiniCluster) -> None:
    """A nominated pod's cards are searched before those of other pods."""
    metered.api.edit(
        "pods",
        metered.create(pod("first", 200, priority=10))["metadata"]["name"],
        {"status": {"nominatedNodeName": "n001"}},
    )
    eventually(lambda: metered.service.cache.nominated_nodes == ["n001"])
    second = metered.create(pod("second", 200))
    assert filter_nodes(metered, second, ["n001", "n004"])["NodeNames"] == ["n004"]
    assert metered.call("GET", "/v1/explain/default/second").status == 200


def test_a_long_list_is_taken_in_portions(lock: MeteredLock) -> None:
    """Nodes, pods and a quota come at once, as after each loss of a watch."""
    seen, wanted = view(), asking((30, 8))
    any_lock: Any = lock
    seen.lock = any_lock
    nodes = [known(Node(name=f"n{at}", cards=(card(0),))) for at in range(MANY)]
    seen.sync_nodes(nodes, nodes[-1].version)
    pods = [bound(seen, f"p{at}", wanted, f"n{at}") for at in range(MANY)]
    seen.sync_pods(pods, pods[-1].version)
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 100_000})}))
    assert seen.usage.used("default", "P40") == 30 * MANY
    seen.sync_pods(pods[: PORTION // 2], pods[-1].version)
    assert len(seen.pods) == PORTION // 2
    assert seen.usage.used("default", "P40") == 30 * (PORTION // 2)
    seen.sync_nodes(nodes[:3], nodes[-1].version)
    assert len(seen.node_names) == 3


def test_a_page_that_is_read_before_a_decision_is_taken_in_portions(lock: MeteredLock) -> None:
    """Pods that take cards come first: cards of the page's pods are never shown free."""
    shown: list[set[str]] = []
    seen = view()
    seen.on_room = lambda: shown.append({*seen.holders("n0")})
    first, wanted = view(), asking((100, 0))
    nodes = [known(Node(name=f"n{at}", cards=(card(0),))) for at in range(MANY)]
    first.sync_nodes(nodes, 0)
    pods = [bound(first, f"p{at}", wanted, f"n{at}") for at in range(MANY)]
    seen.sync_nodes(nodes, nodes[-1].version)
    any_lock: Any = lock
    seen.lock = any_lock
    seen.learn_pods(pods)
    ended = replace(pods[0], finished=True, version=pods[0].version + 1)
    heir = replace(pods[0], uid="heir", name="heir")
    shown.clear()
    seen.learn_pods([ended, *pods[1:], heir])
    assert shown == [{"heir"}]


def test_a_quota_that_comes_while_pods_move_counts_each_once() -> None:
    """Between two portions a pod ends and another comes; the sum is that of the present pods."""
    seen, wanted = view(), asking((30, 8))
    for at in range(NODES):
        seen.set_node(known(Node(name=f"n{at}", cards=(card(0),))))
    pods = [bound(seen, f"p{at}", wanted, f"n{at}") for at in range(NODES)]
    other = replace(waiting("new", wanted), name="new")
    moves: list[Callable[[], object]] = [
        lambda: seen.pod_event("DELETED", pods[0]),
        lambda: seen.pod_event("DELETED", pods[-1]),
        lambda: bound(seen, other.uid, wanted, "n0"),
    ]

    class Moving(MeteredLock):
        def release(self) -> None:
            super().release()
            if not self.is_mine():
                for move in moves[:1]:
                    del moves[0]
                    move()

    any_lock: Any = Moving(traced=False)
    seen.lock = any_lock
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 100_000})}))
    assert not moves
    assert seen.usage.used("default", "P40") == 30 * (NODES - 1)


def test_a_full_quota_is_found_without_a_look_at_the_pods_that_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An Event names these pods later; ten thousand of them take 20 ms to rank."""
    seen = view()
    answers = NodeEvaluator(seen)
    retry = Requeue(writer=None, cache=seen, evaluator=answers)  # type: ignore[arg-type]
    seen.set_node(known(Node(name="n0", cards=(card(0), card(1)))))
    bound(seen, "holder", asking((100, 0)), "n0")
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 100})}))
    wanted = waiting("w", asking((30, 8)))
    seen.pod_event("ADDED", wanted)
    ranked: list[str] = []
    holders = Usage.holders

    def noted(*asked: Any, **options: Any) -> Any:
        ranked.append(asked[2])
        return holders(*asked, **options)

    monkeypatch.setattr(Usage, "holders", noted)
    choice = Reserver(seen, answers, retry).choose(wanted, ("n0",))
    assert choice.results.of("n0").reason is Reason.QUOTA_EXCEEDED
    assert ranked == []
    refusal = answers.refusal(wanted, "n0")
    assert refusal is not None
    assert "holder" in refusal.detail


@pytest.mark.parametrize("left", [(), (0,)])
def test_a_node_that_loses_cards_during_the_search_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, left: tuple[int, ...]
) -> None:
    """The node goes, or the found card; the pod is refused or gets the remaining cards."""
    seen = view()
    answers = NodeEvaluator(seen)
    retry = Requeue(writer=None, cache=seen, evaluator=answers)  # type: ignore[arg-type]
    seen.set_node(known(Node(name="n0", cards=(card(0), card(1)))))
    bound(seen, "holder", asking((100, 0)), "n0")
    wanted = waiting("w", asking((30, 8)))
    seen.pod_event("ADDED", wanted)
    of = answers.of

    def meanwhile(asked: PodState, names: Any, time: Any) -> Any:
        said = of(asked, names, time)
        if left:
            seen.set_node(known(Node(name="n0", cards=tuple(card(minor) for minor in left))))
        else:
            seen.drop_node("n0")
        return said

    monkeypatch.setattr(answers, "of", meanwhile)
    choice = Reserver(seen, answers, retry).choose(wanted, ("n0",))
    assert choice.placement is None
    reason = Reason.INSUFFICIENT_CORE if left else Reason.NODE_UNKNOWN
    assert choice.results.of("n0").reason is reason


@pytest.mark.parametrize("seed", range(5))
def test_cards_reserved_during_a_search_are_never_given_twice(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Reservers race for few cards: each pod gets cards of its own, or none."""
    rolled = random.Random(seed)  # noqa: S311
    seen = view()
    answers = NodeEvaluator(seen)
    chooser = Reserver(seen, answers, Requeue(writer=None, cache=seen, evaluator=answers))  # type: ignore[arg-type]
    for at in range(2):
        seen.set_node(known(Node(name=f"n{at}", cards=(card(0), card(1)))))
    pods = [waiting(f"p{at}", asking((100, 0))) for at in range(7)]
    for each in pods:
        seen.pod_event("ADDED", each)
    of, rest, got = answers.of, list(pods), []

    def interrupted(asked: PodState, names: Any, time: Any) -> Any:
        said = of(asked, names, time)
        if rest and rolled.random() < 0.5:
            choose(rest.pop())
        return said

    def choose(asked: PodState) -> None:
        got.append(chooser.choose(asked, ("n0", "n1")).placement)

    monkeypatch.setattr(answers, "of", interrupted)
    while rest:
        choose(rest.pop())
    held = [(each.node, each.containers[0].minors) for each in got if each is not None]
    assert (len(got), len(held), len(set(held))) == (7, 4, 4)
