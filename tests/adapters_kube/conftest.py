from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack.adapters import kube
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        yield server


@pytest.fixture
def client(api: FakeKubeApi, tmp_path: Path) -> kube.KubeClient:
    path = api.write_kubeconfig(tmp_path / "kubeconfig")
    return kube.KubeClient.from_kubeconfig(path, timeout_seconds=5)
