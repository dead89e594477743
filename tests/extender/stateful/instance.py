"""One extender, composed by the product, that moves only when the test calls it."""

import dataclasses
import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from extender.errors import CannotDecide
from extender.extender import Extender
from extender.settings import ExtenderSettings, QuotaSource
from extender.verbs.deadline import Deadline
from extender.verbs.outcome import Outcome
from gpustack.adapters import kube
from gpustack.adapters.kube.connect import ApiConnection
from gpustack.wire import extender_v1 as bodies
from gpustack.wire.nodes import NodeLabels
from tests.extender.stateful import pods
from tests.extender.stateful.api_server.caller import Caller, Crash, Judge
from tests.extender.stateful.api_server.pool import Pool
from tests.extender.stateful.api_server.server import Server
from tests.extender.stateful.judges.preemption import Victims
from tests.fakes.kube_store import KubeObject

_EPOCH_NS = 1_700_000_000 * 10**9
_IDLE_SECONDS = 10.0
_ALL = 1 << 30

_SETTINGS = ExtenderSettings(
    host="127.0.0.1",
    port=0,
    allowed_hosts=(),
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """filter's answer; on the ``hopeless`` nodes the end of a pod doesn't help."""

    fitting: Sequence[str]
    hopeless: Collection[str]


class Instance:
    """A process with its memory; ``caller`` is the API server's record of it."""

    def __init__(self, server: Server, judge: Judge, name: str, skew_seconds: float) -> None:
        self.server = server
        self.caller = Caller(name)
        self.skew_seconds = skew_seconds
        pool: Any = Pool(server, self.caller, judge)
        connection = ApiConnection(server="api", pool=pool, authorization=dict)
        self.service = Extender(
            _SETTINGS,
            client=kube.KubeClient(connection),
            clock=lambda: server.clock.seconds,
            now_ns=self.now_ns,
        )
        lock: Any = self.service.cache.lock
        self.caller.locked = lock._is_owned
        self.watchers = self.service._watched
        self.deliver_all()

    def now_ns(self) -> int:
        """The process's clock."""
        return _EPOCH_NS + self.server.clock.read_ns() + int(self.skew_seconds * 1e9)

    def deliver(self, which: str, count: int, *, bookmark: bool) -> None:
        """Show a watch's next changes; a watch that got 410 lists and follows."""
        self.caller.deliver, self.caller.bookmarks = count, bookmark
        self.watchers[which].turn()

    def deliver_all(self) -> None:
        """Let every watch catch up."""
        for which, watcher in self.watchers.items():
            self.deliver(which, _ALL, bookmark=True)
            if not watcher.version:  # it got 410, and lists in its next turn
                self.deliver(which, _ALL, bookmark=True)

    def wake(self) -> list[str]:
        """Do one turn of the retry thread; returns the woken pods by UID."""
        woken = []
        for pod in self.service.requeue._look():
            self.service.requeue.activate(pod)
            woken.append(pod.uid)
        return woken

    def keeps(self, uid: str) -> bool:
        """Whether the instance has refused this pod, or taken it over, and would wake it."""
        return uid in self.service.requeue._waiting._where

    def busy_with(self, uid: str) -> bool:
        """Whether a request for this pod is open, so that another one would wait."""
        return uid in self.caller.busy

    def predicates(self, pod: KubeObject, nodes: list[str]) -> list[str]:
        """Return the node of the verb's choice, or none."""
        args = bodies.decode_filter_args(_raw({"Pod": pod, "NodeNames": nodes}))
        found: list[str] = self._ask(pod, lambda deadline: self.service.predicates(args, deadline))[
            "NodeNames"
        ]
        return found or []

    def filter(self, pod: KubeObject, nodes: list[str]) -> Filtered:
        """Return the nodes that fit, and those that can't."""
        args = bodies.decode_filter_args(_raw({"Pod": pod, "NodeNames": nodes}))
        said = self._ask(pod, lambda deadline: self.service.filter(args, deadline))
        return Filtered(
            fitting=said["NodeNames"] or [], hopeless=set(said["FailedAndUnresolvableNodes"] or ())
        )

    def preempt(self, pod: KubeObject, proposed: Victims) -> Victims:
        """Return the verb's victims by node."""
        victims = {
            name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
            for name, uids in proposed.items()
        }
        body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        args = bodies.decode_preemption_args(_raw(body))
        said = self._ask(pod, lambda deadline: self.service.preempt(args, deadline))[
            "NodeNameToMetaVictims"
        ]
        return {name: [each["UID"] for each in there["Pods"]] for name, there in said.items()}

    def bind(self, pod: KubeObject, node: str) -> None:
        """Bind the pod.

        Raises:
            NoAnswer: the pod isn't bound.
        """
        metadata = pod["metadata"]
        name = bodies.PodName(
            namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"]
        )
        args = bodies.BindingArgs(pod=name, node=node)
        self._ask(pod, lambda deadline: self.service.bind(args, deadline))

    def _ask(self, pod: KubeObject, verb: Callable[[Deadline], Outcome]) -> Any:
        """Call a verb as the web application does.

        Raises:
            NoAnswer: the verb gave no decision.
            Crash: the process died.
        """
        if not self.caller.alive:
            raise Crash(self.caller.name)
        if self.service.unready:  # silence: the watches open again, without a change
            for which in self.watchers:
                self.deliver(which, 0, bookmark=False)
        self.caller.begin(self.server, _IDLE_SECONDS)
        uid = pods.uid(pod)
        self.caller.busy.add(uid)
        outer, self.caller.known = self.caller.known, None
        try:
            if self.service.unready:
                raise NoAnswer(self.service.unready)
            outcome = verb(self.service.deadline(lambda: False))
        except CannotDecide as error:
            raise NoAnswer(str(error)) from error
        finally:
            self.caller.busy.discard(uid)
            self.caller.known = outer
        return json.loads(outcome.answer)


def _raw(value: object) -> bytes:
    """An object as bytes, as a scheduler sends it."""
    return json.dumps(value).encode()
