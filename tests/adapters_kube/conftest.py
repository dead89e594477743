from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack.adapters import kube
from tests.adapters_kube.following import PODS, Follower, Watch
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        yield server


@pytest.fixture
def client(api: FakeKubeApi, tmp_path: Path) -> kube.KubeClient:
    path = api.write_kubeconfig(tmp_path / "kubeconfig")
    return kube.KubeClient.from_kubeconfig(path, timeout_seconds=5)


@pytest.fixture
def follower() -> Follower:
    return Follower()


@pytest.fixture
def watch(client: kube.KubeClient, follower: Follower) -> Iterator[Watch]:
    watchers: list[kube.Watcher[Any]] = []

    def start(**options: Any) -> kube.Watcher[Any]:
        watcher = kube.Watcher(
            client,
            PODS,
            **{
                "decode": kube.as_json,
                "on_sync": follower.on_sync,
                "on_event": follower.on_event,
                **options,
            },
        )
        watchers.append(watcher)
        watcher.start()
        return watcher

    yield start
    for watcher in watchers:
        watcher.stop()
