"""What tests of watches share: a follower that collects what it is told, and pods to follow."""

import queue
from collections.abc import Callable
from typing import Any

from gpustack.adapters import kube
from tests.fakes.kube_api import FakeKubeApi

PODS = "/api/v1/pods"
WAIT_SECONDS = 10


Watch = Callable[..., kube.Watcher[Any]]


def pod(name: str, node: str = "", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node}}


def create_many(api: FakeKubeApi, count: int) -> list[str]:
    """Create pods; returns their names, in order."""
    names = [f"p{i:04}" for i in range(count)]
    for name in names:
        api.create("pods", pod(name))
    return names


class Follower:
    """Collects what a watcher tells; each thing it was told can be awaited."""

    def __init__(self) -> None:
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()

    def on_sync(self, items: list[dict[str, Any]]) -> None:
        self.told.put(("SYNC", sorted(item["metadata"]["name"] for item in items)))

    def on_event(self, kind: str, value: dict[str, Any]) -> None:
        self.told.put((kind, value["metadata"]["name"]))

    def next(self) -> tuple[str, Any]:
        return self.told.get(timeout=WAIT_SECONDS)
