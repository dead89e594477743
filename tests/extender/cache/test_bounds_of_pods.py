"""Fields of pods beside their limits are bounded: demands on nodes, and labels for budgets."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from extender.cache.pod_disruption_budgets import read_budget
from extender.cache.pods import PodState, read_pod
from gpustack.model.cluster.eligibility import NO_DEMANDS
from gpustack.wire.kube import api_objects
from gpustack.wire.kube.pod_disruption_budget import Budget, Budgets, violating
from tests.control_plane.fleet import KEYS
from tests.extender.mini_cluster import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def read(**spec: Any) -> PodState:
    """Read a pod of one share with these fields."""
    value = pod("p", 50, 32)
    value["metadata"] |= {"uid": "p", "resourceVersion": "1"}
    value["spec"] |= spec
    return read_pod(KEYS, value)


def affinity(terms: int) -> dict[str, Any]:
    found = [
        {"matchExpressions": [{"key": f"example.org/{at}", "operator": "Exists"}]}
        for at in range(terms)
    ]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": found}}}


def test_a_node_affinity_of_100_terms_is_read() -> None:
    terms = read(affinity=affinity(100)).demands.affinity
    assert terms is not None
    assert len(terms) == 100


def test_an_endless_node_affinity_is_left_to_the_scheduler() -> None:
    assert read(affinity=affinity(15_000)).demands == NO_DEMANDS


def test_endless_tolerations_are_left_to_the_scheduler() -> None:
    tolerations = [{"key": f"example.org/{at}", "operator": "Exists"} for at in range(15_000)]
    assert read(tolerations=tolerations).demands == NO_DEMANDS


def test_scheduling_gates_are_read_beside_an_endless_affinity() -> None:
    state = read(affinity=affinity(15_000), schedulingGates=[{"name": "example.org/wait"}])
    assert state.gated
    assert state.demands.gates == ("example.org/wait",)
    assert state.demands.affinity is None


def test_an_affinity_between_pods_leaves_the_other_demands_as_they_are() -> None:
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "x" * 20_000}}}]
    state = read(affinity={"podAffinity": {REQUIRED: terms}}, nodeSelector={"disk": "ssd"})
    assert state.demands.selector == (("disk", "ssd"),)


def labelled(labels: dict[str, str]) -> PodState:
    """Read a pod of one share with these labels."""
    value = pod("p", 50, 32)
    value["metadata"] |= {"uid": "p", "resourceVersion": "1", "labels": labels}
    return read_pod(KEYS, value)


def test_labels_in_bounds_are_kept() -> None:
    labels = {f"example.org/{at}": "x" * 63 for at in range(100)}
    assert labelled(labels).labels == labels


def test_endless_labels_are_not_kept() -> None:
    assert labelled({f"l{at}": "" for at in range(50_000)}).labels is None


def budget(selector: dict[str, Any]) -> Budget:
    """Read a budget that protects all pods of its selector."""
    metadata = {"name": "b", "namespace": "default"}
    status = {"disruptionsAllowed": 0}
    value = {"metadata": metadata, "spec": {"selector": selector}, "status": status}
    return read_budget(msgspec.json.encode(value))


ENDLESS = {
    "matchExpressions": [{"key": f"a{at}", "operator": "DoesNotExist"} for at in range(20_000)]
}


def test_a_budget_of_an_endless_selector_covers_no_pod() -> None:
    short = budget({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]})
    assert violating([labelled({"b": ""})], Budgets([short]))
    endless = budget(ENDLESS)
    assert endless.selects == ()


def test_a_budget_of_many_labels_takes_little_more_than_its_text() -> None:
    """A tenant may have a hundred thousand."""
    labels = [dict.fromkeys(short(number)[:127], "") for number in range(60)]
    budget({"matchLabels": labels.pop()})
    tracemalloc.start()
    try:
        kept = [budget({"matchLabels": each}) for each in labels]
        took = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert took < len(kept) * (4 << 10)
    assert violating([labelled(labels[0])], Budgets([kept[0]]))


def test_an_endless_selector_protects_each_pod_that_it_may_cover() -> None:
    some, none = labelled({"b": ""}), labelled({})
    assert violating([some], Budgets([budget(ENDLESS)])) == {some.uid}
    assert not violating([none], Budgets([budget(ENDLESS)]))  # the scheduler ignores such a pod


def test_a_pod_of_endless_labels_is_covered_by_each_nonempty_selector() -> None:
    many = labelled({f"l{at}": "" for at in range(50_000)})
    assert violating([many], Budgets([budget({"matchLabels": {"a": "b"}})])) == {many.uid}
    assert not violating([many], Budgets([budget({})]))


LETTERS = "abcdefghijklmnopqrstuvwxyz"
MOST_BYTES = 32 << 10  # of each: a tenant may have ten thousand


def with_card_keys(count: int) -> PodState:
    """Read a pod whose user wrote so many keys of cards."""
    value = pod("p", 50, 32)
    value["metadata"] |= {"uid": "p", "resourceVersion": "1"}
    value["metadata"]["annotations"] = {f"{KEYS.idx_prefix}{at}": "" for at in range(count)}
    return read_pod(KEYS, value)


def test_a_pod_of_endless_card_keys_is_refused_and_keeps_none() -> None:
    state = with_card_keys(7_000)
    assert state.problem is not None
    assert "metadata.annotations: has 7000 of tencent.com/predicate-gpu-idx-*" in str(state.problem)
    assert state.decision_keys == ()


def test_as_many_card_keys_as_a_decision_has_are_removed() -> None:
    state = with_card_keys(128)
    assert state.problem is None
    assert len(state.decision_keys) == 128


def test_a_decision_of_endless_cards_is_not_kept() -> None:
    """Of 64 containers with 256 cards each one took 1.6 MB."""
    value = pod("p", 25_600, 0)
    value["metadata"] |= {"uid": "p", "resourceVersion": "1"}
    value["spec"]["containers"] *= 64
    cards = ",".join(map(str, range(256)))
    decided = {KEYS.predicate_time: "1", KEYS.predicate_node: "x", KEYS.gpu_assigned: "false"}
    written = {f"{KEYS.idx_prefix}{at}": cards for at in range(64)}
    value["metadata"]["annotations"] = {**decided, **written}
    state = read_pod(KEYS, value)
    assert state.problem is not None
    assert "ask for 16384 cards in all" in state.problem.message
    assert state.decision is None


@pytest.mark.parametrize("key", [KEYS.predicate_node, f"{KEYS.uuid_prefix}0"])
def test_a_decision_of_endless_names_is_not_kept(key: str) -> None:
    """Where no admission policy is, any user writes 250 KB of them on each pod that waits."""
    value = pod("p", 50, 32)
    decided = {KEYS.predicate_time: "1", KEYS.predicate_node: "x", f"{KEYS.idx_prefix}0": "0"}
    annotations = {**decided, f"{KEYS.uuid_prefix}0": "GPU-0", key: "x" * 10_000}
    value["metadata"] |= {"uid": "p", "resourceVersion": "1", "annotations": annotations}
    assert read_pod(KEYS, value).decision is None


def short(first: int) -> list[str]:
    """Return 16 KiB of names that are as short as so many different ones can be."""
    numbers = range(first * 5_000, (first + 1) * 5_000)
    return ["".join(LETTERS[at // 26**power % 26] for power in range(4)) for at in numbers]


def small_labels(at: int) -> object:
    return labelled_raw({"labels": dict.fromkeys(short(at)[:3_900], "")}, {})


def small_selector(at: int) -> object:
    return labelled_raw({}, {"nodeSelector": dict.fromkeys(short(at)[:1_600], "")})


def small_values(at: int) -> object:
    terms = [{"matchExpressions": [{"key": "a", "operator": "In", "values": short(at)[:2_200]}]}]
    return labelled_raw(
        {}, {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}
    )


def small_budget(at: int) -> object:
    return budget({"matchLabels": dict.fromkeys(short(at)[:1_600], "")})


def labelled_raw(metadata: dict[str, Any], spec: dict[str, Any]) -> PodState:
    """Read a pod of one share as the watch brings it."""
    value = pod("p", 50, 32)
    value["metadata"] |= {"uid": "p", "resourceVersion": "1", **metadata}
    value["spec"] |= spec
    return read_pod(KEYS, api_objects.decode_pod(msgspec.json.encode(value)))


@pytest.mark.parametrize("made", [small_labels, small_selector, small_values, small_budget])
def test_sixteen_kibibytes_of_small_words_take_little_memory(
    made: Callable[[int], object],
) -> None:
    for at in range(8):  # until the memory for them is full
        made(at)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [made(at) for at in range(8, 16)]
        took = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert took < len(kept) * MOST_BYTES
