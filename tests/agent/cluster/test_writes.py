"""Writes to pods: which refusals end them."""

import pathlib
from collections.abc import Iterator

import pytest

from gpustack.adapters.kube import KubeClient
from gpustack.agent.cluster.writes import PodWrites
from tests.fakes.kube_api import FakeKubeApi
from tests.waiting import running, wait_until

POD = {"metadata": {"name": "one", "namespace": "default"}}


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as api:
        yield api


def lost(api: FakeKubeApi, folder: pathlib.Path, uid: str) -> int:
    """Write to a pod; return how many writes were lost once the API server has answered."""
    client = KubeClient.from_kubeconfig(api.write_kubeconfig(folder / "kubeconfig"))
    writes = PodWrites(client=client)
    writes.annotate(uid=uid, namespace="default", name="one", annotations={"key": "value"})
    with running(writes.run):
        wait_until(lambda: bool(api.asked("PATCH", ".*/one/status")))
    return writes.dropped


def test_a_write_to_another_pod_of_that_name_is_not_lost(
    api: FakeKubeApi, tmp_path: pathlib.Path
) -> None:
    api.create("pods", POD)
    assert lost(api, tmp_path, "another") == 0


def test_a_write_that_is_refused_as_invalid_is_counted_as_lost(
    api: FakeKubeApi, tmp_path: pathlib.Path
) -> None:
    uid = api.create("pods", POD)["metadata"]["uid"]
    api.faults.fail("PATCH", ".*/one/status", status=422, reason="Invalid")
    assert lost(api, tmp_path, uid) == 1


def test_a_deletion_of_another_pod_of_that_name_is_not_tried_again(
    api: FakeKubeApi, tmp_path: pathlib.Path
) -> None:
    """The first answer was lost, and a StatefulSet has made the next pod of that name."""
    api.create("pods", POD)
    client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
    writes = PodWrites(client=client)
    writes.delete(uid="another", namespace="default", name="one")
    with running(writes.run):
        wait_until(lambda: bool(api.asked("DELETE", ".*/one")))
    assert (writes.pending, writes.dropped) == (0, 0)
    assert api.get("pods", "one")["metadata"]["name"] == "one"
