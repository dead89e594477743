"""Events about pods: which of many are written when there are too many for the API server."""

import dataclasses
import pathlib
import threading

from gpustack.adapters.kube import EventRecorder, KubeClient, ObjectEvent
from gpustack.adapters.kube.fair_queue import FairQueue
from tests.extender.client import eventually
from tests.fakes.kube_api import FakeKubeApi

NAMESPACE = "team"


def event(number: int, *, warning: bool) -> ObjectEvent:
    return ObjectEvent(
        namespace=NAMESPACE,
        name=f"pod-{number}",
        uid=f"uid-{number}",
        reason="NoRoom" if warning else "GPUBound",
        message="said",
        warning=warning,
    )


def test_some_events_of_pods_that_fit_are_written_and_all_warnings(tmp_path: pathlib.Path) -> None:
    dropped: list[None] = []
    seconds = [100.0]
    with FakeKubeApi() as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        recorder = EventRecorder(
            client,
            component="tester",
            on_drop=lambda: dropped.append(None),
            clock=lambda: seconds[0],
        )
        for number in range(100):
            recorder.record(event(number, warning=False))
        assert len(dropped) == 80
        seconds[0] += 5
        for number in range(100, 110):
            recorder.record(event(number, warning=False))
        assert len(dropped) == 85
        recorder.record(event(200, warning=True))
        recorder.start()
        try:
            eventually(lambda: len(api.store.list("events")[1]) == 26)
        finally:
            recorder.stop()
        assert sum(each["type"] == "Warning" for each in api.store.list("events")[1]) == 1


def test_a_namespace_of_thousands_of_events_silences_no_other(tmp_path: pathlib.Path) -> None:
    dropped: list[None] = []
    with FakeKubeApi() as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        recorder = EventRecorder(client, component="tester", on_drop=lambda: dropped.append(None))
        for number in range(3000):
            recorder.record(event(number, warning=True))
        recorder.record(dataclasses.replace(event(1, warning=True), namespace="other", uid="one"))
        assert len(dropped) == 2001
        recorder.start()
        try:
            eventually(lambda: len(api.store.list("events")[1]) >= 2)
        finally:
            recorder.stop()
        written = {each["metadata"]["namespace"] for each in api.store.list("events")[1]}
        assert written == {NAMESPACE, "other"}


def test_a_message_of_an_event_is_one_line(tmp_path: pathlib.Path) -> None:
    with FakeKubeApi() as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        recorder = EventRecorder(client, component="tester")
        hostile = dataclasses.replace(event(1, warning=True), message="a\n<3>b\x1b[2J" + "é" * 2000)
        recorder.record(hostile)
        recorder.start()
        try:
            eventually(lambda: len(api.store.list("events")[1]) == 1)
        finally:
            recorder.stop()
        (written,) = api.store.list("events")[1]
    assert written["message"].startswith(r"a\n<3>b\x1b[2Jé")
    assert written["message"].isprintable()
    assert len(written["message"].encode()) <= 1024


# The queue in which they wait.


def taken(queue: FairQueue[str], count: int) -> list[str | None]:
    return [queue.get() for _ in range(count)]


def test_owners_have_turns_and_each_gets_its_items_in_order() -> None:
    queue: FairQueue[str] = FairQueue(10)
    for item in ("a1", "a2", "a3", "b1", "b2", "c1"):
        assert queue.put(item[0], item)
    assert taken(queue, 6) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_where_it_is_full_who_has_the_most_loses_the_newest() -> None:
    queue: FairQueue[str] = FairQueue(3)
    for item in ("a1", "a2", "a3"):
        assert queue.put("a", item)
    assert not queue.put("b", "b1")
    assert not queue.put("a", "a4")
    assert taken(queue, 3) == ["a1", "b1", "a2"]


def test_of_owners_of_one_item_each_some_lose_theirs() -> None:
    queue: FairQueue[str] = FairQueue(3)
    assert [queue.put(owner, owner) for owner in "abcde"] == [True] * 3 + [False] * 2
    assert len(set(taken(queue, 3))) == 3


def test_a_closed_queue_lets_its_reader_go() -> None:
    queue: FairQueue[str] = FairQueue(3)
    got: list[str | None] = []
    reader = threading.Thread(target=lambda: got.append(queue.get()))
    reader.start()
    queue.close()
    reader.join(timeout=10)
    assert got == [None]
