"""How long an answer can become: a tenant's pods may each ask much."""

from dataclasses import replace

import msgspec

from extender.api.serializers import ClusterValues
from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.snapshot import Snapshotter
from extender.observability.card_utilisation import CardUtilisation
from gpustack.model.request import Selector
from tests.extender.states import view, waiting
from tests.model import machines

COUNT = 1000
LONG = tuple(f"GPU-{at:03d}-{'x' * 55}" for at in range(64))


def test_a_tenants_long_pods_make_no_endless_answer() -> None:
    seen = view()
    long = replace(machines.pod(*[(1, 1)] * 64), uuids=Selector(include=LONG))
    for at in range(COUNT):
        seen.pod_event("ADDED", waiting(f"p{at}", long, namespace="a", unschedulable="no"))
    seen.pod_event("ADDED", waiting("good", long, namespace="b", unschedulable="no"))
    snapshot = Snapshotter(seen, NodeEvaluator(seen)).take()
    text = msgspec.json.encode(
        ClusterValues().make(snapshot, {}, CardUtilisation(), unready="", quota_problem="")
    )
    assert len(text) < 5 << 20
    told = msgspec.json.decode(text)["waiting"]
    assert len(told) == COUNT + 1
    assert len(told[0]["request"]["containers"]) == len(told[-1]["request"]["containers"]) == 64
    assert (told[-1]["name"], told[-1]["scheduler"]) == ("good", "no")
    assert (told[-2]["request"], told[-2]["scheduler"]) == (None, "")


def test_long_pods_of_many_namespaces_make_no_endless_answer() -> None:
    """A tenant may make namespaces; each had four megabytes of its own."""
    seen = view()
    long = replace(machines.pod(*[(1, 1)] * 64), uuids=Selector(include=LONG))
    for at in range(4 * COUNT):
        owner = f"a{at % 40}"
        seen.pod_event("ADDED", waiting(f"p{at}", long, namespace=owner, unschedulable="no"))
    seen.pod_event("ADDED", waiting("good", long, namespace="b", unschedulable="no"))
    snapshot = Snapshotter(seen, NodeEvaluator(seen)).take()
    text = msgspec.json.encode(
        ClusterValues().make(snapshot, {}, CardUtilisation(), unready="", quota_problem="")
    )
    size_bytes = len(text)
    assert size_bytes < 20 << 20
    told = msgspec.json.decode(text)["waiting"]
    assert len(told) == 4 * COUNT + 1
    assert {each["namespace"] for each in told if each["request"]} == {
        *(f"a{at}" for at in range(40)),
        "b",
    }
    assert (told[-1]["name"], told[-1]["scheduler"]) == ("good", "no")
