"""A cluster in miniature: the fake API server, an extender on a real port, a scheduler's calls."""

import contextlib
import dataclasses
import datetime
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flask

from extender.api.app import create_app
from extender.extender import Extender
from extender.settings import ExtenderSettings, QuotaSource
from gpustack.model.node import Node
from gpustack.wire.keys import Keys
from gpustack.wire.nodes import NodeLabels
from tests.control_plane import fleet
from tests.extender import werkzeug_server
from tests.extender.client import Answer, call, eventually
from tests.fakes.kube_api import FakeKubeApi
from tests.model.machines import card, grouped

PREDICATES = "/scheduler/predicates"
KEYS = Keys("tencent.com")
LEAVING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
MODEL = "NVIDIA A100-SXM4-80GB"
CARD_UNITS = 320
"""Memory of a card: 80 GiB."""


def node(name: str, cards: int = 2) -> dict[str, Any]:
    """A node of the API with equal cards, as its agent describes it, or one without any."""
    if not cards:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": {},
            "status": {"allocatable": {"cpu": "8"}},
        }
    made = (card(at, CARD_UNITS, uuid=f"GPU-{name}-{at}", model=MODEL) for at in range(cards))
    links = grouped(cards, within="NV12")
    return fleet.gpu_node(Node(name=name, cards=tuple(made), links=links))


def original_node(name: str) -> dict[str, Any]:
    """A node with two cards of 32 units as the original manager shows it: only their sums."""
    value = node(name, 0)
    value["status"]["allocatable"] = {KEYS.vcuda_core: "200", KEYS.vcuda_memory: "64"}
    return value


def limits(core: object = None, memory: object = None) -> dict[str, Any]:
    asked = {KEYS.vcuda_core: core, KEYS.vcuda_memory: memory}
    return {name: str(value) for name, value in asked.items() if value is not None}


def pod(
    name: str,
    core: object = None,
    memory: object = None,
    *,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod of one container with these limits."""
    container = {"name": "main", "resources": {"limits": limits(core, memory)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {"containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def unschedulable(message: str, seconds_from_now: float = 0) -> dict[str, Any]:
    """The scheduler's status of a pod without a fitting node."""
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds_from_now)
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"status": {"conditions": [condition]}}


@dataclasses.dataclass(slots=True, kw_only=True)
class MiniCluster:
    """The cluster of a test: API server, extender, and the extender's port."""

    api: FakeKubeApi
    service: Extender
    port: int

    def call(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Make one HTTP request on its own connection."""
        return call(self.port, method, path, body)

    def ask(self, asked: dict[str, Any], nodes: list[str] | None = None) -> Any:
        """Call predicates as a scheduler with ``nodeCacheCapable: true``; returns the result."""
        names = sorted(self.service.cache.node_names) if nodes is None else nodes
        body = {"Pod": asked, "Nodes": None, "NodeNames": names}
        answer = self.call("POST", PREDICATES, json.dumps(body).encode())
        assert answer.status == 200, answer.raw
        return answer.body

    def create(self, value: dict[str, Any]) -> dict[str, Any]:
        """Create a pod; returns it as the scheduler's watch shows it."""
        return self.api.create("pods", value)

    def sees(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Wait until the extender knows this version of a pod; returns it."""
        version = int(pod["metadata"]["resourceVersion"])

        def shown() -> bool:
            known = self.service.cache.pod(pod["metadata"]["uid"])
            return known is not None and known.version >= version

        eventually(shown)
        return pod

    def place(self, name: str, core: object, memory: object = None, **options: Any) -> Any:
        """Create a pod and call predicates with it."""
        return self.ask(self.create(pod(name, core, memory, **options)))

    def bind(self, name: str, to: str) -> dict[str, Any]:
        """Bind a pod as the scheduler does; returns it."""
        return self.api.edit("pods", name, {"spec": {"nodeName": to}})

    def end(self, name: str) -> dict[str, Any]:
        """Let a pod begin to end, as its deletion does; returns it."""
        return self.api.edit("pods", name, LEAVING)

    def annotations(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.api.get("pods", name)["metadata"].get("annotations") or {}
        return found

    def free_cores(self, name: str) -> int:
        found = self.service.cache.node(name)
        assert found is not None
        return sum(found.free_cores(index) for index in range(len(found.cards)))


def settings(api: FakeKubeApi, folder: Path, **changes: Any) -> ExtenderSettings:
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "allowed_hosts": (),
        "kubeconfig": api.write_kubeconfig(folder / "kubeconfig"),
        "domain": "tencent.com",
        "policy": "exact",
        "labels": NodeLabels(),
        "quota": QuotaSource(namespace="kube-system", name="gpuquota", deny=False),
        "tls": None,
        "reservation_seconds": 900.0,
        "decision_seconds": 3.0,
        "request_limit_bytes": 1 << 20,
        "request_seconds": 10.0,
        "threads": 16,
        "watch_idle_seconds": 90.0,
        "stale_seconds": 180.0,
        "log_level": "INFO",
    }
    return ExtenderSettings(**{**values, **changes})


@contextlib.contextmanager
def serving(
    api: FakeKubeApi,
    folder: Path,
    *,
    wait: bool = True,
    clock: Callable[[], float] = time.monotonic,
    **changes: Any,
) -> Iterator[MiniCluster]:
    """Run an extender against ``api`` on a free port, with the settings changed as given."""
    chosen = settings(api, folder, **changes)
    service = Extender(chosen, clock=clock)
    app = create_app(service, request_limit_bytes=chosen.request_limit_bytes)
    with listening(app) as port:
        service.start()
        try:
            if wait:
                eventually(lambda: not service.unready)
            yield MiniCluster(api=api, service=service, port=port)
        finally:
            service.stop()


@contextlib.contextmanager
def listening(app: flask.Flask) -> Iterator[int]:
    """Serve an application on a free port of loopback."""
    server = werkzeug_server.listening("127.0.0.1", 0, app)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
