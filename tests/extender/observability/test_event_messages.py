"""The Event of a refused pod: numbers, the closest card, and the advice."""

from typing import Any

import pytest

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from extender.cache.snapshot import Snapshotter
from extender.observability.event_messages import EventMessages
from gpustack.model.node import Node
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import Reason
from gpustack.model.request import ContainerRequest, PodRequest, Selector
from gpustack.model.search.backtracking import Attempt
from tests.extender import states
from tests.extender.calls import bound, filter_nodes
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, pod
from tests.model.machines import card

ONE_ASKED = "of 1 node that kube-scheduler asked about, none fits"


def machine(name: str, cards: int = 2, *, model: str = "NVIDIA T4", healthy: bool = True) -> Node:
    made = (card(i, uuid=f"{name}-{i}", model=model, healthy=healthy) for i in range(cards))
    return Node(name=name, cards=tuple(made))


def asks(cores: int, memory_units: int = 0, **also: Any) -> PodRequest:
    asked = ContainerRequest(name="main", index=0, cores=cores, memory_units=memory_units)
    return PodRequest(containers=(asked,), **also)


class Cluster:
    """A cache with its nodes, and the messages about it."""

    def __init__(self, *nodes: Node) -> None:
        self.now = 0.0
        self.step = 0.0  # seconds by which each read moves the clock on
        self.view: ClusterCache = states.view()
        self.view.sync_nodes([states.known(node) for node in nodes], 0)
        answers = NodeEvaluator(self.view)
        self.words = EventMessages(Snapshotter(self.view, answers), answers, clock=self._clock)

    def _clock(self) -> float:
        self.now += self.step
        return self.now

    def runs(self, name: str, request: PodRequest, node: str, **fields: Any) -> None:
        states.bound(self.view, name, request, node, **fields)

    def refuses(self, pod_state: PodState) -> str:
        self.view.add_pod(pod_state)
        reasons = {Reason.INSUFFICIENT_CORE: len(self.view.node_names)}
        return self.words(pod_state, reasons, min(self.view.node_names))()


def test_the_event_of_a_share_names_the_card_with_most_free(mini: MiniCluster) -> None:
    bound(mini, "a", "gpu1", 80, 32)
    bound(mini, "b", "gpu1", 70, 32)
    bound(mini, "c", "gpu2", 100)
    bound(mini, "d", "gpu2", 90, 32)
    filter_nodes(mini, mini.create(pod("p", 60, 32)))
    eventually(lambda: any(each["reason"] == "InsufficientCore" for each in mini.api.events()))
    message = next(e["message"] for e in mini.api.events() if e["reason"] == "InsufficientCore")
    assert message.startswith(
        "of 3 nodes that kube-scheduler asked about, none fits: 2 InsufficientCore, 1 NoCards. "
    )
    assert "Closest is GPU 1 of gpu1: container 'main' on node gpu1: 60 cores" in message
    assert "the most that any acceptable card has free is 30 cores" in message
    assert "It would fit if container 'main' asks 30 instead of 60 cores" in message
    assert "pod default/b ends" in message


def test_the_event_of_whole_cards_names_the_node_with_most_free() -> None:
    cluster = Cluster(machine("n1", 4), machine("n2", 4))
    cluster.runs("a", asks(300), "n1")
    cluster.runs("b", asks(200), "n2")
    assert "Closest is node n2: " in cluster.refuses(states.waiting("p", asks(400)))


def test_cards_that_the_pod_does_not_accept_are_not_close() -> None:
    cluster = Cluster(
        machine("n1"), machine("n2", model="NVIDIA A100"), machine("n3", healthy=False)
    )
    cluster.runs("a", asks(75, 8), "n2")
    cluster.runs("b", asks(50, 8), "n2")
    wants = asks(90, 64, models=Selector(include=("A100",)))
    assert "Closest is GPU 1 of n2: " in cluster.refuses(states.waiting("p", wants))


def test_an_event_without_a_close_card_has_only_the_reasons() -> None:
    cluster = Cluster(machine("n1", 0))
    words = cluster.refuses(states.waiting("p", asks(40, 8)))
    assert words.startswith(f"{ONE_ASKED}: 1 InsufficientCore")
    assert "Closest" not in words


def test_what_the_quota_says_is_put_down_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scheduler waits for it; on a node of several models it took sixty searches."""
    cluster = Cluster(machine("n1"))
    cluster.view.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"T4": 100})}))
    cluster.runs("a", asks(60, 8), "n1")
    asked = states.waiting("p", asks(50, 8))
    cluster.view.add_pod(asked)
    evaluator = NodeEvaluator(cluster.view)
    words = EventMessages(Snapshotter(cluster.view, evaluator), evaluator, clock=cluster._clock)
    assert evaluator.of(asked, ("n1",)).of("n1").reason is Reason.QUOTA_EXCEEDED
    searches: list[Attempt] = []
    monkeypatch.setattr(Attempt, "answer", searches.append)
    later = words(asked, {Reason.QUOTA_EXCEEDED: 1}, "n1")
    assert not searches
    monkeypatch.undo()
    cluster.view.remove_pod("a")
    assert "n1: namespace 'default' holds 0.6 of its 1 T4 cards (a 0.6); the pod needs" in later()


def test_pods_that_ask_alike_share_a_search_while_it_is_fresh() -> None:
    cluster = Cluster(machine("n1"))
    cluster.runs("a", asks(200), "n1")
    first = cluster.refuses(states.waiting("p", asks(100)))
    assert "pod default/a ends" in first
    cluster.view.remove_pod("a")
    assert "pod default/a ends" in cluster.refuses(states.waiting("q", asks(100)))
    cluster.now += 30
    assert "pod default/a ends" not in cluster.refuses(states.waiting("r", asks(100)))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (200, "if default/own and 1 pod of other namespaces end, which leaves room on node n1"),
        (100, "It would fit if 1 pod of other namespaces ends, which leaves room on node n1"),
    ],
)
def test_an_event_names_no_pod_of_another_namespace(asked: int, told: str) -> None:
    """Its readers may have no right to know the other's pods."""
    cluster = Cluster(machine("n1", asked // 100))
    cluster.runs("secret", asks(100), "n1", namespace="hidden")
    if asked > 100:
        cluster.runs("own", asks(100), "n1")
    words = cluster.refuses(states.waiting("p", asks(asked)))
    assert told in words
    assert "secret" not in words
    assert "hidden" not in words


def test_an_event_tells_of_cards_and_quota_where_both_lack() -> None:
    """The node alone says what lacks of its cards; the quota comes to light with the advice."""
    cluster = Cluster(machine("n1", 1))
    cluster.view.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"T4": 20})}))
    cluster.runs("secret", asks(100), "n1", namespace="hidden")
    words = cluster.refuses(states.waiting("p", asks(100)))
    assert words.startswith(f"{ONE_ASKED}: 1 InsufficientCore. Closest is node n1: ")
    assert (
        "It would fit if 1 pod of other namespaces ends, which leaves room on node n1, and the "
        "quota of namespace 'default' allows 1 instead of 0.2 T4 cards"
    ) in words
    assert "secret" not in words


def test_searches_take_a_small_part_of_the_time() -> None:
    """After a search none runs for twenty times as long, for any request."""
    cluster = Cluster(machine("n1"))
    cluster.runs("a", asks(200), "n1")
    cluster.step = 2.0**-8
    assert "It would fit if" in cluster.refuses(states.waiting("p", asks(100)))
    took, cluster.step = cluster.now - cluster.step, 0.0
    cluster.now += 19 * took
    during = cluster.refuses(states.waiting("q", asks(200)))
    assert "It would fit if" not in during
    assert "n1: container 'main' on node n1: 2 whole cards wanted" in during
    cluster.now += took
    assert "It would fit if" in cluster.refuses(states.waiting("r", asks(200)))


def test_a_search_without_an_end_delays_no_other_event_for_long() -> None:
    """Each time that the pod is placed takes a second here."""
    cluster = Cluster(*(machine(f"n{at}", at) for at in range(1, 20)))
    cluster.step = 1.0
    words = cluster.refuses(states.waiting("p", asks(2000)))
    assert cluster.now < 10
    assert "Closest is node n19" in words
    assert "It would fit if" not in words


def test_an_event_has_the_quota_as_of_the_refusal() -> None:
    cluster = Cluster(machine("n1"))
    one_card = NamespaceQuota(cards={"T4": 100})
    cluster.view.set_quota(Quota(namespaces={"default": one_card}))
    refused = states.waiting("p", asks(200))
    cluster.view.add_pod(refused)
    words = cluster.words(refused, {Reason.QUOTA_EXCEEDED: 1}, "n1")
    cluster.runs("a", asks(100), "n1")
    assert "n1: namespace 'default' holds 0 of its 1 T4 cards; the pod needs 2 more" in words()


def test_a_pod_gets_one_event_a_minute_for_any_reason(mini: MiniCluster) -> None:
    created = mini.create(pod("p", 400))
    filter_nodes(mini, created, ["gpu1"])
    filter_nodes(mini, created, ["cpu1"])
    filter_nodes(mini, mini.create(pod("q", 400)), ["cpu1"])
    eventually(lambda: len(mini.api.events()) == 2)
    told = [each["involvedObject"]["name"] for each in mini.api.events()]
    assert told == ["p", "q"]
