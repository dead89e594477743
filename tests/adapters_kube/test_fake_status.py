"""The fake API server keeps a pod's parts apart, as the real one does (tests/admission)."""

from typing import Any

import pytest

from gpustack.adapters.kube import KubeClient
from tests.fakes.kube_api import FakeKubeApi

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default", "ownerReferences": [{"uid": "1"}]},
    "spec": {"nodeName": "gpu1", "containers": [{"name": "main", "image": "good"}]},
    "status": {"phase": "Running"},
}
CHANGE: dict[str, Any] = {
    "metadata": {"annotations": {"a": "b"}, "ownerReferences": [{"uid": "2"}]},
    "spec": {"containers": [{"name": "main", "image": "evil"}]},
    "status": {"phase": "Failed"},
}


@pytest.mark.parametrize("part", ["", "/status"])
def test_a_write_changes_its_own_part_of_a_pod(
    client: KubeClient, api: FakeKubeApi, part: str
) -> None:
    api.create("pods", POD)
    after = client.patch(f"/api/v1/namespaces/default/pods/p{part}", CHANGE)
    assert after["metadata"]["annotations"] == {"a": "b"}
    assert len(after["metadata"]["ownerReferences"]) == (1 if part else 2)
    assert after["spec"]["containers"][0]["image"] == ("good" if part else "evil")
    assert after["spec"]["nodeName"] == "gpu1"
    assert after["status"]["phase"] == ("Failed" if part else "Running")
