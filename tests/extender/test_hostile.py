"""A few nodes and pods are hostile: the others get the same answers as without them."""

import itertools
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.cache.decode import Decoder
from gpustack.model.cluster import eligibility
from tests.control_plane import fleet
from tests.extender import hostile
from tests.extender.calls import bind, filter_nodes, scores
from tests.extender.mini_cluster import MiniCluster, serving
from tests.extender.states import view
from tests.fakes.kube_api import FakeKubeApi

HONEST = 12
TURNS = 3
EIGHT_CARDS = 800


@pytest.fixture
def cluster(api: FakeKubeApi, tmp_path: Path) -> Iterator[MiniCluster]:
    """Honest nodes with a pod on each, and a node for each trick."""
    for number in range(HONEST):
        api.create("nodes", fleet.node(number))
        api.create("pods", fleet.bound_pod(number, 0))
    for trick in range(hostile.NODE_TRICKS):
        api.create("nodes", hostile.node(f"bad-{trick}", trick))
    with serving(api, tmp_path) as running:
        yield running


def honest(mini: MiniCluster, name: str, cores: int, units: int = 0) -> set[str]:
    """Ask for a pod as the scheduler does; returns the honest nodes on which it fits."""
    value = mini.create(fleet.waiting_pod(name, cores, units))
    found = filter_nodes(mini, value)
    assert not found["Error"]
    marks = scores(mini, value)
    fitting = {name for name in found["NodeNames"] if name.startswith("gpu-")}
    assert all(marks[name] > 0 for name in fitting)
    mini.api.delete("pods", name)
    return fitting


@pytest.mark.long
def test_hostile_texts_refuse_no_honest_pod(cluster: MiniCluster) -> None:
    names = {fleet.name_of(number) for number in range(HONEST)}
    numbers = itertools.count(1)
    for turn in range(TURNS):
        for trick in range(hostile.NODE_TRICKS):
            cluster.api.edit("nodes", f"bad-{trick}", hostile.node_patch(trick, next(numbers)))
        for trick in range(2 * hostile.POD_TRICKS):
            name = f"bad-{turn}-{trick}"
            value = cluster.create(hostile.waiting_pod(name, trick, next(numbers)))
            cluster.sees(value)
            filter_nodes(cluster, value)
            changes = {"metadata": {"annotations": hostile.pod_annotations(trick, next(numbers))}}
            cluster.sees(cluster.api.edit("pods", name, changes))
        assert honest(cluster, f"share-{turn}", 30, 64) == names
        assert honest(cluster, f"cards-{turn}", 700) == names
        assert honest(cluster, f"too-many-{turn}", EIGHT_CARDS) == set()
    for trick in range(hostile.NODE_TRICKS):
        assert f"bad-{trick}" in cluster.service.cache.node_names
    placed = cluster.create(fleet.waiting_pod("placed", 100, 0))
    assert bind(cluster, placed, fleet.name_of(1)) == ""
    for path in ("/v1/cluster", "/metrics", "/v1/explain/default/bad-0-1"):
        assert cluster.call("GET", path).status == 200


def test_a_node_that_says_too_much_is_left_out_by_name(
    cluster: MiniCluster, caplog: pytest.LogCaptureFixture
) -> None:
    said = [each.getMessage() for each in caplog.get_records("setup")]
    for trick, words in ((0, "256 at most"), (2, "262144 at most"), (3, "describes no machine")):
        node = cluster.service.cache.node(f"bad-{trick}")
        assert node is not None
        assert node.cards == ()
        assert any(f"node=bad-{trick} " in each and words in each for each in said)
    assert max(map(len, said)) < 1000


def test_a_nodes_endless_labels_are_not_kept() -> None:
    """As many as an object has room for: 10 MB in each extender."""
    value = fleet.node(0)
    value["metadata"] |= {"resourceVersion": "1"}
    value["metadata"]["labels"] |= {f"l{at}": "" for at in range(110_000)}
    taints = [{"key": f"t{at}", "effect": "NoSchedule"} for at in range(30_000)]
    value["spec"] = {"taints": taints}
    value["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    host = Decoder(hostile.KEYS).node(json.dumps(value).encode()).host
    assert (len(host.labels), len(host.taints)) == (512, 512)
    assert host.labels["kubernetes.io/hostname"] == fleet.name_of(0)
    assert eligibility.states(host)[0] == eligibility.NOT_READY


@pytest.mark.long
def test_patches_of_one_pod_add_no_memory() -> None:
    """Some hundred patches, each with another text of 200 KB, added a gigabyte."""
    seen, reading = view(), Decoder(hostile.KEYS)
    tracemalloc.start()
    try:
        for number in range(120):
            value = fleet.waiting_pod("p")
            value["metadata"] |= {"uid": "u", "resourceVersion": str(number + 1)}
            value["metadata"]["annotations"] = hostile.pod_annotations(0, number)
            value["metadata"]["labels"] = {f"l{number}-{at}": "x" * 60 for at in range(100)}
            seen.pod_event("MODIFIED", reading.pod(json.dumps(value).encode()))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 64 << 20


@pytest.mark.long
def test_pods_of_many_labels_and_demands_take_the_memory_of_their_text() -> None:
    """As objects, the 220 labels and 200 demands of a pod of 6 KB took 52 KB."""
    seen, reading = view(), Decoder(hostile.KEYS)
    pods = 200
    tracemalloc.start()
    try:
        for number in range(pods):
            value = fleet.waiting_pod(f"p{number}")
            value["metadata"] |= {"uid": f"u{number}", "resourceVersion": str(number + 1)}
            value["metadata"]["labels"] = {f"l{at}": f"{number}" for at in range(220)}
            value["spec"]["nodeSelector"] = {f"n{at}": f"{number}" for at in range(200)}
            seen.pod_event("ADDED", reading.pod(json.dumps(value).encode()))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < pods * (16 << 10)
