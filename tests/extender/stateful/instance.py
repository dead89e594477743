"""One extender, composed by the product, that moves only when the test calls it."""

import json
from pathlib import Path
from typing import Any

from extender.errors import CannotDecide
from extender.service import Extender
from extender.settings import QuotaSource, Settings
from gpustack.adapters import kube
from gpustack.adapters.kube.connect import Connection
from gpustack.wire import extender_bodies as bodies
from gpustack.wire.nodes import NodeLabels
from tests.extender.stateful.server import Caller, Crash, Pool, Server, raw
from tests.extender.stateful.truth import Truth
from tests.fakes.kube_store import KubeObject

_EPOCH_NS = 1_700_000_000 * 10**9
_IDLE_SECONDS = 10.0
_ALL = 1 << 30

_SETTINGS = Settings(
    host="127.0.0.1",
    port=0,
    kubeconfig=Path("none"),
    domain="tencent.com",
    policy="exact",
    labels=NodeLabels(),
    quota=QuotaSource(namespace="kube-system", name="gpuquota", deny=False),
    tls=None,
    reservation_seconds=900.0,
    decision_seconds=5.0,
    request_limit_bytes=1 << 20,
    request_seconds=10.0,
    threads=1,
    watch_idle_seconds=90.0,
    stale_seconds=180.0,
    log_level="INFO",
)


class NoAnswer(Exception):
    """The verb gave no decision; the scheduler tries again later."""


class Instance:
    """A process with its memory; ``caller`` is what the API server knows of it."""

    def __init__(self, server: Server, truth: Truth, name: str, skew_seconds: float) -> None:
        self.server = server
        self.caller = Caller(name)
        self.skew_seconds = skew_seconds
        pool: Any = Pool(server, self.caller, truth)
        connection = Connection(server="api", pool=pool, authorization=dict)
        self.service = Extender(
            _SETTINGS,
            client=kube.KubeClient(connection),
            clock=lambda: server.clock.seconds,
            now_ns=self.now_ns,
        )
        lock: Any = self.service.view.lock
        self.caller.locked = lock._is_owned
        self.watchers: dict[str, kube.Watcher[Any]] = {
            "nodes": self.service._nodes,
            "pods": self.service._pods,
            "quota": self.service._quota_watch.watcher,
        }
        self.deliver_all()

    def now_ns(self) -> int:
        """Its clock."""
        return _EPOCH_NS + int((self.server.clock.seconds + self.skew_seconds) * 1e9)

    def deliver(self, which: str, count: int, *, bookmark: bool) -> None:
        """Show a watch's next changes; a watch that was told to list again lists and follows."""
        self.caller.deliver, self.caller.bookmarks = count, bookmark
        self.watchers[which].turn()

    def deliver_all(self) -> None:
        """Let every watch catch up."""
        for which in self.watchers:
            for _ in range(2):  # one that gets 410 lists again in its next turn
                self.deliver(which, _ALL, bookmark=True)

    def wake(self) -> list[str]:
        """Do what the retry thread does once; returns whom it woke, by UID."""
        woken = []
        for pod in self.service.retry._look():
            self.service._writer.write_retry(pod.namespace, pod.name, pod.uid, self.now_ns())
            woken.append(pod.uid)
        return woken

    def busy_with(self, uid: str) -> bool:
        """Whether a request for this pod is under way, which another one would wait for."""
        return uid in self.caller.busy

    def predicates(self, pod: KubeObject, nodes: list[str]) -> list[str]:
        """Return the node that the verb chose, or none."""
        args = bodies.decode_filter_args(raw({"Pod": pod, "NodeNames": nodes}))
        return self._nodes(pod, lambda: self.service.predicates(args))

    def filter(self, pod: KubeObject, nodes: list[str]) -> list[str]:
        """Return the nodes that fit."""
        args = bodies.decode_filter_args(raw({"Pod": pod, "NodeNames": nodes}))
        return self._nodes(pod, lambda: self.service.filter(args))

    def bind(self, pod: KubeObject, node: str) -> None:
        """Have the pod bound.

        Raises:
            NoAnswer: it isn't.
        """
        metadata = pod["metadata"]
        name = bodies.PodName(
            namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"]
        )
        args = bodies.BindingArgs(pod=name, node=node)
        self._ask(pod, lambda: self.service.bind(args))

    def _nodes(self, pod: KubeObject, verb: Any) -> list[str]:
        found: list[str] = json.loads(self._ask(pod, verb))["NodeNames"] or []
        return found

    def _ask(self, pod: KubeObject, verb: Any) -> bytes:
        """Call a verb as the web application does.

        Raises:
            NoAnswer: there is none.
            Crash: the process died.
        """
        if not self.caller.alive:
            raise Crash(self.caller.name)
        if self.service.unready:  # silence: the watches are opened again, and show nothing new
            for which in self.watchers:
                self.deliver(which, 0, bookmark=False)
        if self.server.clock.seconds - self.caller.fresh_at > _IDLE_SECONDS:
            self.caller.obliged = self.server.store.version
        uid = pod["metadata"]["uid"]
        self.caller.busy.add(uid)
        try:
            if self.service.unready:
                raise NoAnswer(self.service.unready)
            answer: bytes = verb()
        except CannotDecide as error:
            raise NoAnswer(str(error)) from error
        finally:
            self.caller.busy.discard(uid)
        return answer
