"""Cards by model, pool and namespace, and how long pods wait, as `/metrics` shows them."""

import json

from prometheus_client.registry import CollectorRegistry

from extender.cache.cache import ClusterCache
from extender.cache.decode import Decoder
from extender.observability.usage_metrics import UsageCollector
from gpustack.adapters.web import exposition
from gpustack.adapters.web.exposition import MOST_NAMESPACES, OTHERS
from gpustack.model.node import Node
from gpustack.model.request import PodRequest
from tests.extender.mini_cluster import KEYS
from tests.extender.mini_cluster import pod as api_pod
from tests.extender.states import bound, known, view, waiting
from tests.model import machines
from tests.model.machines import card, grouped

NOW_NS = 100_000_000_000


def node(name: str, pool: str = "", model: str = "NVIDIA A100", cards: int = 2) -> Node:
    made = [card(at, 320, uuid=f"GPU-{name}-{at}", model=model) for at in range(cards)]
    return Node(name=name, cards=tuple(made), links=grouped(cards, within="NV12"), pool=pool)


def read(seen: ClusterCache, collector: UsageCollector | None = None) -> dict[str, float]:
    """Return every sample by its name and its labels' values."""
    registry = CollectorRegistry()
    registry.register(collector or UsageCollector(seen, lambda: NOW_NS))
    exposition.render(registry, "")
    return {
        " ".join([each.name, *each.labels.values()]): each.value
        for family in registry.collect()
        for each in family.samples
    }


def half() -> PodRequest:
    return machines.pod((50, 32))


def test_cards_are_counted_by_node_pool_and_model() -> None:
    seen = view()
    seen.sync_nodes([known(node("gpu1", "train")), known(node("gpu2", model='T"4\n'))], 1)
    found = read(seen)
    assert found["gpustack_node_cards gpu1 train NVIDIA-A100"] == 2
    assert found["gpustack_node_healthy_cards gpu1 train NVIDIA-A100"] == 2
    assert found["gpustack_node_cards gpu2  T-4"] == 2


def test_what_a_namespace_holds_is_counted_by_pool_and_model() -> None:
    seen = view()
    seen.sync_nodes([known(node("gpu1", "train"))], 1)
    for uid, namespace in (("p", "a"), ("q", "a"), ("r", "b")):
        bound(seen, uid, half(), "gpu1", namespace=namespace)
    collector = UsageCollector(seen, lambda: NOW_NS)
    held = read(seen, collector)
    assert held["gpustack_namespace_held_cards a train NVIDIA-A100"] == 1
    assert held["gpustack_namespace_held_cards b train NVIDIA-A100"] == 0.5
    bound(seen, "s", half(), "gpu1", namespace="b")
    assert read(seen, collector)["gpustack_namespace_held_cards b train NVIDIA-A100"] == 1


def test_the_oldest_waiting_pod_counts_from_its_creation() -> None:
    seen = view()
    assert read(seen)["gpustack_extender_oldest_waiting_seconds"] == 0
    for uid, created, fields in (
        ("p", 40_000_000_000, {}),
        ("q", 90_000_000_000, {}),
        ("gated", 1_000_000_000, {"gated": True}),
        ("unknown", 0, {}),
        ("ahead", 200_000_000_000, {"namespace": "b"}),
    ):
        seen.pod_event("ADDED", waiting(uid, half(), created_ns=created, **fields))
    found = read(seen)
    assert found["gpustack_extender_oldest_waiting_seconds"] == 60
    assert found["gpustack_namespace_oldest_waiting_seconds default"] == 60
    assert found["gpustack_namespace_oldest_waiting_seconds b"] == 0
    assert found["gpustack_namespace_waiting_pods default"] == 3


def test_a_tenant_with_many_namespaces_gets_few_rows() -> None:
    seen = view()
    for at in range(MOST_NAMESPACES + 5):
        namespace = f"n{at}"
        pod = waiting(f"p{at}", half(), namespace=namespace, created_ns=NOW_NS - at * 10**9)
        seen.pod_event("ADDED", pod)
    found = read(seen)
    rows = [name for name in found if name.startswith("gpustack_namespace_waiting_pods ")]
    assert len(rows) == MOST_NAMESPACES + 1
    assert found[f"gpustack_namespace_waiting_pods {OTHERS}"] == 5
    # The oldest counts, whichever row it is in.
    assert found["gpustack_extender_oldest_waiting_seconds"] == MOST_NAMESPACES + 4


def test_a_pods_creation_is_read_from_what_the_api_server_sends() -> None:
    made = {
        **api_pod("p", 100),
        "metadata": {
            "name": "p",
            "uid": "p",
            "resourceVersion": "7",
            "creationTimestamp": "1970-01-01T00:00:05Z",
        },
    }
    assert Decoder(KEYS).pod(json.dumps(made).encode()).created_ns == 5 * 10**9
    made["metadata"]["creationTimestamp"] = "yesterday"
    assert Decoder(KEYS).pod(json.dumps(made).encode()).created_ns == 0
