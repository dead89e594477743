"""The fake API server binds as the real one does (checked against Kubernetes 1.34)."""

import threading
import time
from typing import Any

import pytest

from gpustack.adapters.kube import KubeClient, KubeError
from tests.fakes.kube_api import FakeKubeApi

PATH = "/api/v1/namespaces/default/pods/p/binding"
POD = {"metadata": {"name": "p", "annotations": {"mine": "1"}}, "spec": {}, "status": {}}


def binding(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def test_a_binding_sets_the_node_and_adds_its_annotations(
    api: FakeKubeApi, client: KubeClient
) -> None:
    made = api.create("pods", POD)["metadata"]
    client.post(
        PATH,
        binding(
            uid=made["uid"], resourceVersion=made["resourceVersion"], annotations={"ours": "2"}
        ),
    )
    pod = api.get("pods", "p")
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {"mine": "1", "ours": "2"}
    assert pod["status"]["conditions"] == [{"type": "PodScheduled", "status": "True"}]


@pytest.mark.parametrize(
    ("before", "metadata", "words"),
    [
        ({}, {"uid": "other"}, "UID in precondition: other"),
        ({}, {"resourceVersion": "1"}, "ResourceVersion in precondition: 1"),
        ({"spec": {"nodeName": "n0"}}, {}, 'already assigned to node "n0"'),
        ({"spec": {"nodeName": "n1"}}, {}, 'already assigned to node "n1"'),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, {}, "non-empty .spec.schedulingGates"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {}, "is being deleted"),
    ],
)
def test_a_refused_binding_is_a_conflict_and_changes_nothing(
    api: FakeKubeApi,
    client: KubeClient,
    before: dict[str, Any],
    metadata: dict[str, Any],
    words: str,
) -> None:
    api.create("pods", POD)
    was = api.edit("pods", "p", before)
    with pytest.raises(KubeError, match=words) as caught:
        client.post(PATH, binding(**metadata))
    assert caught.value.conflict
    assert api.get("pods", "p") == was


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"metadata": {"name": "q"}}, 400),
        ({"target": {"kind": "Node", "name": ""}}, 422),
        ({"target": {"kind": "Pod", "name": "n1"}}, 422),
    ],
)
def test_a_binding_that_makes_no_sense_is_refused(
    api: FakeKubeApi, client: KubeClient, change: dict[str, Any], status: int
) -> None:
    api.create("pods", POD)
    with pytest.raises(KubeError) as caught:
        client.post(PATH, {**binding(), **change})
    assert caught.value.status == status


def test_a_binding_of_a_missing_pod_is_not_found(client: KubeClient) -> None:
    with pytest.raises(KubeError) as caught:
        client.post(PATH, binding())
    assert caught.value.not_found


def test_one_of_fifty_bindings_at_once_wins(api: FakeKubeApi, client: KubeClient) -> None:
    made = api.create("pods", POD)["metadata"]
    barrier = threading.Barrier(50)
    won: list[int] = []
    lost: list[bool] = []

    def bind(number: int) -> None:
        barrier.wait()
        body = binding(resourceVersion=made["resourceVersion"], annotations={"by": str(number)})
        try:
            client.post(PATH, body)
        except KubeError as error:
            lost.append(error.conflict)
        else:
            won.append(number)

    threads = [threading.Thread(target=bind, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == [True] * 49
    assert [api.get("pods", "p")["metadata"]["annotations"]["by"]] == [str(each) for each in won]


def test_a_watch_that_lags_shows_each_change_so_much_later(
    api: FakeKubeApi, client: KubeClient
) -> None:
    api.lag_seconds = 0.2
    version = str(api.store.version)
    made = time.monotonic()
    api.create("pods", POD)
    params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "5"}
    with client.stream("/api/v1/pods", params, idle_seconds=5) as response:
        assert b'"ADDED"' in next(iter(response.stream(amt=64)))
    assert time.monotonic() - made >= 0.2
