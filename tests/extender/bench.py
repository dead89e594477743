"""A cluster in miniature: the fake API server, an extender on a real port, a scheduler's calls."""

import contextlib
import dataclasses
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import werkzeug.serving

from extender.service import Extender
from extender.settings import QuotaSource, Settings
from extender.web.app import create_app
from gpustack.model.device import Card, Node
from gpustack.wire.annotations import Keys
from gpustack.wire.nodes import NodeLabels, encode_devices
from tests.fakes.kube_api import FakeKubeApi

KEYS = Keys("tencent.com")
WAIT_SECONDS = 10
GIB = 1 << 30


def node(name: str, cards: int = 2, *, memory_gib: int = 80, **metadata: Any) -> dict[str, Any]:
    """A node of the API with equal cards, as the agent annotates it."""
    model = Node(
        name=name,
        cards=tuple(
            Card(
                minor=minor,
                uuid=f"GPU-{name}-{minor}",
                model="NVIDIA A100-SXM4-80GB",
                memory_bytes=memory_gib * GIB,
                sms=108,
                numa=0,
                bus=f"0000:{minor:02x}:00.0",
            )
            for minor in range(cards)
        ),
        links=tuple(tuple("X" if a == b else "NV12" for b in range(cards)) for a in range(cards)),
        driver="535.261.03",
        cuda="12.2",
    )
    annotations = {KEYS.gpu_devices: encode_devices(model)} if cards else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, **metadata},
        "spec": {},
        "status": {"allocatable": {"cpu": "8"}},
    }


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


@dataclasses.dataclass(slots=True, kw_only=True)
class Answer:
    """An HTTP answer; ``body`` is decoded when it is JSON."""

    status: int
    body: Any
    raw: bytes


@dataclasses.dataclass(slots=True, kw_only=True)
class Bench:
    """What a test holds."""

    api: FakeKubeApi
    service: Extender
    port: int

    def call(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Make one HTTP request of its own connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            raw = response.read()
            decoded = json.loads(raw) if response.getheader("Content-Type") == JSON else None
            return Answer(status=response.status, body=decoded, raw=raw)

    def ask(self, asked: dict[str, Any], nodes: list[str] | None = None) -> Any:
        """Call predicates as a scheduler with ``nodeCacheCapable: true``; returns the result."""
        names = sorted(self.service.view.node_names) if nodes is None else nodes
        body = {"Pod": asked, "Nodes": None, "NodeNames": names}
        answer = self.call("POST", PREDICATES, json.dumps(body).encode())
        assert answer.status == 200, answer.raw
        return answer.body

    def create(self, value: dict[str, Any]) -> dict[str, Any]:
        """Create a pod; returns it as the scheduler's watch shows it."""
        return self.api.create("pods", value)

    def place(self, name: str, core: object, memory: object = None, **options: Any) -> Any:
        """Create a pod and ask for it."""
        return self.ask(self.create(pod(name, core, memory, **options)))

    def bind(self, name: str, to: str) -> None:
        """Bind a pod as the scheduler does."""
        self.api.edit("pods", name, {"spec": {"nodeName": to}})

    def annotations(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.api.get("pods", name)["metadata"].get("annotations") or {}
        return found

    def free_cores(self, name: str) -> int:
        found = self.service.view.node(name)
        assert found is not None
        return sum(found.free_cores(index) for index in range(len(found.cards)))


PREDICATES = "/scheduler/predicates"
JSON = "application/json"


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def settings(api: FakeKubeApi, folder: Path, **changes: Any) -> Settings:
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
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
    return Settings(**{**values, **changes})


@contextlib.contextmanager
def serving(
    api: FakeKubeApi, folder: Path, *, wait: bool = True, **changes: Any
) -> Iterator[Bench]:
    """Run an extender against ``api`` on a free port, with the settings changed as given."""
    chosen = settings(api, folder, **changes)
    service = Extender(chosen)
    app = create_app(service, request_limit_bytes=chosen.request_limit_bytes)
    server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    service.start()
    try:
        if wait:
            eventually(lambda: not service.unready)
        yield Bench(api=api, service=service, port=server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        service.stop()
