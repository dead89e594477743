"""The API server, and the agent's view of it, which lags behind by up to 300 s.

In place of connections, below the agent's own client and watcher.
"""

import json
import urllib.parse
from collections.abc import Callable
from typing import Any

from gpustack.adapters.kube.connect import ApiConnection
from tests.agent.stateful.kill_points import KillPoints
from tests.agent.stateful.virtual_time import Clock
from tests.extender.stateful.api_server.pool import Response
from tests.extender.stateful.api_server.server import Call, Server
from tests.fakes import kube_rules
from tests.fakes.kube_store import KubeObject, StoreError


class Api:
    """All pods, and how much of them a watch shows.

    Attributes:
        lag_seconds: how late a watch shows the changes that come from now on.
        on_shown: called when it shows one more.
    """

    def __init__(self, clock: Clock, points: KillPoints) -> None:
        self.server = Server()
        self.lag_seconds = 0.0
        self.on_shown: Callable[[], None] = lambda: None
        self._clock = clock
        self._points = points
        self._shown = self.server.store.version
        self._shown_at = 0.0  # when the newest change is shown: the order stays
        pool: Any = self
        self.connection = ApiConnection(server="api", pool=pool, authorization=dict)

    def create(self, pod: KubeObject) -> KubeObject:
        created = self.server.store.create(_key(pod), pod)
        self._changed()
        return created

    def edit(self, pod: KubeObject, patch: KubeObject) -> None:
        self.server.store.update(
            _key(pod),
            lambda value: kube_rules.patched(value, patch, "application/merge-patch+json"),
        )
        self._changed()

    def delete(self, pod: KubeObject) -> None:
        self.server.store.delete(_key(pod))
        self._changed()

    def find(self, pod: KubeObject) -> KubeObject | None:
        """Return the pod of this name and UID, if there is one."""
        try:
            found = self.server.store.get(_key(pod))
        except StoreError:
            return None
        return found if found["metadata"]["uid"] == pod["metadata"]["uid"] else None

    def pods(self) -> list[KubeObject]:
        return list(self.server.store.list("pods")[1])

    def catch_up(self) -> None:
        """Let the watch show everything, and be late no more."""
        self.lag_seconds = self._shown_at = 0.0
        self._show(self.server.store.version)

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str],
        **_others: object,
    ) -> Response:
        """Answer the agent's client as a pool of connections does."""
        path, _, text = url.removeprefix("api").partition("?")
        call = Call(
            method=method,
            path=path,
            query=dict(urllib.parse.parse_qsl(text)),
            body=json.loads(body) if body else {},
            kind=headers.get("content-type", ""),
        )
        if "watch" in call.query:
            return self._watch(call)
        if method == "GET":
            return _answer(*self.server.execute(call))
        self._points.pass_by(f"before {method} {call.resource}/{call.sub}")
        answer = _answer(*self.server.execute(call))
        self._changed()
        self._points.pass_by(f"after {method} {call.resource}/{call.sub}")
        return answer

    def _watch(self, call: Call) -> Response:
        lines = [
            {"type": change.kind, "object": change.after}
            for change in self.server.changes("pods", int(call.query["resourceVersion"]))
            if change.version <= self._shown
        ]
        return Response(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def _changed(self) -> None:
        version = self.server.store.version
        self._shown_at = max(self._shown_at, self._clock.seconds + self.lag_seconds)
        self._clock.at(self._shown_at, lambda: self._show(version))

    def _show(self, version: int) -> None:
        if version > self._shown:
            self._shown = version
            self.on_shown()


def _answer(status: int, value: KubeObject) -> Response:
    return Response(status, json.dumps(value).encode())


def _key(pod: KubeObject) -> tuple[str, str, str]:
    return "pods", pod["metadata"]["namespace"], pod["metadata"]["name"]
