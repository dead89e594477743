"""Two instances beside two schedulers: one doesn't give the cards that the other has given."""

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.cache import consistent_read
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.wire.extender_v1 import PodName
from tests.extender.calls import at_once, bind
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster, node, pod, serving
from tests.fakes.kube_api import FakeKubeApi

IDX = "tencent.com/predicate-gpu-idx-0"


@pytest.fixture
def pair(api: FakeKubeApi, tmp_path: Path) -> Iterator[tuple[MiniCluster, MiniCluster]]:
    """Two instances, whose watches don't show the other's writes."""
    for name in ("gpu1", "gpu2"):
        api.create("nodes", node(name))
    with contextlib.ExitStack() as stack:
        minis = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            minis.append(stack.enter_context(serving(api, tmp_path / name)))
        api.hold_watches()
        yield minis[0], minis[1]
        api.release_watches()


def lists(api: FakeKubeApi) -> list[str]:
    """The selectors of the consistent reads of pods so far."""
    asked = api.asked("GET", "/api/v1/pods$")
    return [r.query["fieldSelector"] for r in asked if "fieldSelector" in r.query]


def cards(api: FakeKubeApi) -> Counter[tuple[str, str]]:
    """The hundredths of each card in the pods' annotations."""
    taken: Counter[tuple[str, str]] = Counter()
    for value in api.store.list("pods")[1]:
        written = value["metadata"].get("annotations") or {}
        cores = int(value["spec"]["containers"][0]["resources"]["limits"][KEYS.vcuda_core])
        for minor in written.get(IDX, "").split(",") if IDX in written else ():
            taken[written[KEYS.predicate_node], minor] += min(cores, 100)
    return taken


def test_the_second_sees_a_reservation_of_the_first_before_its_watch(
    pair: tuple[MiniCluster, MiniCluster],
) -> None:
    first, second = pair
    first.place("one", 100)
    assert second.place("two", 100)["NodeNames"] == ["gpu1"]
    assert second.annotations("two")[IDX] != first.annotations("one")[IDX]
    assert second.place("three", 200)["NodeNames"] == ["gpu2"]
    assert lists(second.api)[-2:] == ["spec.nodeName=gpu1", "spec.nodeName=gpu2"]
    assert max(cards(first.api).values()) == 100


def test_the_second_sees_a_binding_of_the_first_before_its_watch(
    pair: tuple[MiniCluster, MiniCluster],
) -> None:
    first, second = pair
    assert bind(first, first.create(pod("one", 100)), "gpu1") == ""
    assert bind(second, second.create(pod("two", 100)), "gpu1") == ""
    assert first.annotations("one")[IDX] != second.annotations("two")[IDX]
    assert "NoWholeCard" in bind(second, second.create(pod("three", 100)), "gpu1")
    assert max(cards(first.api).values()) == 100


def test_a_pod_that_the_first_decided_gets_the_same_cards_from_the_second(
    pair: tuple[MiniCluster, MiniCluster],
) -> None:
    first, second = pair
    created = first.create(pod("one", 50, 32))
    first.ask(created, ["gpu2"])
    before = first.annotations("one")
    assert second.ask(created)["NodeNames"] == ["gpu2"]
    assert second.annotations("one")[IDX] == before[IDX]


def test_an_instance_that_wakes_a_pod_knows_its_newest_version(
    pair: tuple[MiniCluster, MiniCluster],
) -> None:
    first, second = pair
    first.place("other", 100)  # it has just read all pods, and relies on its watch now
    second.place("one", 100)
    metadata = second.api.get("pods", "one")["metadata"]
    name = PodName(namespace=metadata["namespace"], name="one", uid=metadata["uid"])
    waiting = first.service._writer.read(name, timeout_seconds=5)
    assert waiting is not None
    assert first.service.cache.placement(waiting.uid) is None
    first.service.requeue.activate(waiting)
    assert first.service.cache.placement(waiting.uid) is not None
    assert first.place("two", 200)["NodeNames"] == ["gpu2"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_cards_of_an_interrupted_write_are_not_given_twice(
    pair: tuple[MiniCluster, MiniCluster], when: str
) -> None:
    first, second = pair
    first.api.faults.drop("PATCH", "/pods/one/status$", when=when, times=2)
    one = first.create(pod("one", 100))
    assert first.ask(one)["Error"]
    others = [second.create(pod(f"p{i}", 100)) for i in range(4)]
    placed = [second.ask(value)["NodeNames"] for value in others]
    again = second.ask(one)["NodeNames"]
    assert len([names for names in [*placed, again] if names]) == 4
    assert all(cores <= 100 for cores in cards(first.api).values())


def test_a_quota_that_the_first_has_used_up_is_not_given_again(
    pair: tuple[MiniCluster, MiniCluster],
) -> None:
    first, second = pair
    quota = Quota(namespaces={"default": NamespaceQuota(cards={"A100": 100})})
    for instance in pair:
        instance.service.cache.set_quota(quota)
    assert bind(first, first.create(pod("one", 100)), "gpu1") == ""
    assert "QuotaExceeded" in bind(second, second.create(pod("two", 100)), "gpu2")
    assert second.place("three", 100)["FailedNodes"]["gpu2"].startswith("QuotaExceeded")


def test_a_busy_instance_whose_watch_has_caught_up_reads_nothing(mini: MiniCluster) -> None:
    mini.place("one", 50, 32)
    assert lists(mini.api) == ["spec.nodeName=", "spec.nodeName=gpu1"]
    mini.api.send_bookmarks()
    version = int(mini.api.get("pods", "one")["metadata"]["resourceVersion"])
    eventually(lambda: int(mini.service._pods.version) >= version)
    mini.place("two", 50, 32)
    mini.place("three", 200)
    assert len(lists(mini.api)) == 2


def test_an_instance_that_was_idle_reads_again(
    mini: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mini.place("one", 50, 32)
    monkeypatch.setattr(mini.service._consistent_read, "_clock", lambda: time.monotonic() + 11)
    mini.place("two", 50, 32)
    assert lists(mini.api) == ["spec.nodeName=", "spec.nodeName=gpu1"] * 2


def test_requests_that_arrive_together_share_one_read(mini: MiniCluster) -> None:
    for number in range(12):
        mini.api.create("nodes", node(f"more{number}"))
    asked = [mini.sees(mini.create(pod(f"p{number}", 50, 32))) for number in range(12)]
    eventually(lambda: len(mini.service.cache.node_names) == 15)
    calls = [
        functools.partial(bind, mini, each, f"more{number}") for number, each in enumerate(asked)
    ]
    assert at_once(calls) == [""] * 12
    assert lists(mini.api).count("spec.nodeName=") == 1


@pytest.mark.parametrize("path", ["/api/v1/pods$", "/nodes/gpu1$"])
def test_a_read_that_fails_leaves_nothing_reserved(mini: MiniCluster, path: str) -> None:
    # The watch is open, so the fault hits the extender's read and not the watch's list.
    created = mini.sees(mini.create(pod("p", 50, 32)))
    mini.api.faults.fail("GET", path, status=500)
    assert "500" in mini.ask(created)["Error"]
    assert mini.free_cores("gpu1") == 200
    assert mini.ask(created)["NodeNames"] == ["gpu1"]


def test_a_node_that_goes_before_the_read_is_not_chosen(mini: MiniCluster) -> None:
    mini.api.hold_watches()
    mini.api.delete("nodes", "gpu1")
    assert mini.place("p", 50, 32)["NodeNames"] == ["gpu2"]


def test_a_refusal_reads_nothing(mini: MiniCluster) -> None:
    assert mini.place("p", 300)["NodeNames"] == []
    assert lists(mini.api) == []


@pytest.fixture
def single_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first page of a list has one pod."""
    monkeypatch.setattr(consistent_read, "_FIRST_PAGE", 1)


@pytest.mark.usefixtures("single_pods")
@pytest.mark.parametrize("verb", ["bind", "predicates"])
def test_a_list_without_an_end_delays_no_decision(mini: MiniCluster, verb: str) -> None:
    for number in range(3):
        mini.create(pod(f"waits{number}"))
    created = mini.sees(mini.create(pod("p", 50, 32)))
    mini.api.faults.hold("GET", "/api/v1/pods$", times=100, parameter="continue")
    if verb == "bind":
        assert bind(mini, created, "gpu1") == ""
    else:
        assert mini.ask(created, ["gpu1"])["NodeNames"] == ["gpu1"]
    read = [each.query.get("fieldSelector") for each in mini.api.asked("GET", "/api/v1/pods$")]
    assert "spec.nodeName=" in read
    assert "spec.nodeName=gpu1" not in read  # as long perhaps, and the watch has shown it


@pytest.mark.usefixtures("single_pods")
def test_a_long_list_is_read_to_its_end_while_the_watch_is_behind(
    pair: tuple[MiniCluster, MiniCluster],
) -> None:
    first, second = pair
    for number in range(3):
        first.create(pod(f"waits{number}", 300))
    first.place("one", 200)
    assert "gpu1" not in second.place("two", 200)["NodeNames"]
    assert max(cards(first.api).values()) == 100
