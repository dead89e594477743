"""Stands in place of urllib3's connections, below the product's own client.

Every call is a point for an event: an answer is lost, a request takes effect late, a process dies,
another request comes.
"""

import functools
import io
import json
import urllib.parse
from collections.abc import Callable, Iterator

import urllib3

from tests.extender.stateful.api_server.caller import Caller, Crash, Judge, Known
from tests.extender.stateful.api_server.server import Call, Server
from tests.fakes import kube_rules
from tests.fakes.kube_store import KubeObject, StoreError

_Effect = Callable[[], tuple[int, KubeObject]]


class Response:
    """A whole answer."""

    def __init__(self, status: int, data: bytes) -> None:
        self.status = status
        self._left = io.BytesIO(data)

    def read(self, amt: int | None = None) -> bytes:
        return self._left.read(amt)

    def read1(self, amt: int) -> bytes:
        return self._left.read1(amt)

    def stream(self, amt: int) -> Iterator[bytes]:
        return iter(functools.partial(self._left.read1, amt), b"")

    def close(self) -> None:
        """Nothing is open."""

    def shutdown(self) -> None:
        """Nothing is open."""


class Pool:
    """One process's way to the server."""

    def __init__(self, server: Server, caller: Caller, judge: Judge) -> None:
        self._server = server
        self._caller = caller
        self._judge = judge

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str],
        timeout: urllib3.Timeout,
        **_others: object,
    ) -> Response:
        path, _, text = url.removeprefix("api").partition("?")
        call = Call(
            method=method,
            path=path,
            query=dict(urllib.parse.parse_qsl(text)),
            body=json.loads(body) if body else {},
            kind=headers.get("content-type", ""),
        )
        if not self._caller.alive:
            raise Crash(self._caller.name)
        assert not self._caller.locked(), f"{call.method} {call.path} under the cache's lock"
        assert call.method == "GET" or call.uid, f"may hit another pod of the name: {call}"
        assert not call.decides or call.uid in self._caller.busy, f"no request for {call}"
        if "watch" in call.query:
            return self._watch(call)
        return self._answer(call, _seconds(timeout))

    def _answer(self, call: Call, seconds: float) -> Response:
        caller = self._caller
        known = self._remember(call)
        what, act = self._server.planned(call)
        if what == "before":
            act()
        if what == "crash":
            caller.die()
        if what.isdigit():
            self._judge.doubt(caller, call, int(what))
            return _failed(int(what))
        effect = self._carry_out(call, known)
        self._lose(what, call, effect, seconds)
        status, value = effect()
        if what == "after":
            act()
        if what == "crash after":
            caller.die()
        if not caller.alive:
            raise Crash(caller.name)
        return self._deliver(what, call, status, value)

    def _deliver(self, what: str, call: Call, status: int, value: KubeObject) -> Response:
        """Give the answer of a call that took effect, unless it gets lost on the way."""
        if what in {"cut after", "504 after"}:
            self._judge.doubt(self._caller, call, 0)
        elif status >= 300:
            self._judge.doubt(self._caller, call, status)
        if what == "cut after":
            raise urllib3.exceptions.ProtocolError("connection reset")
        if what == "504 after":
            return _failed(504)
        self._told(call, status, value)
        return Response(status, json.dumps(value).encode())

    def _lose(self, what: str, call: Call, effect: _Effect, seconds: float) -> None:
        """Give no answer, and carry the call out later, or never."""
        if what not in {"late", "silent", "cut"}:
            return
        self._judge.doubt(self._caller, call, 0)
        if what == "cut":
            raise urllib3.exceptions.ProtocolError("connection reset")
        if what == "late":
            self._server.late.append(lambda: effect() and None)
        self._server.clock.seconds += seconds
        raise urllib3.exceptions.ReadTimeoutError(None, call.path, "no answer")  # type: ignore[arg-type]

    def _remember(self, call: Call) -> Known:
        """Note the known state; changes during the removal of forged cards come too late."""
        caller = self._caller
        known = caller.known
        if known is None or not call.decides:
            known = caller.knows(self._server)
        caller.known = known if call.clears else None
        return known

    def _carry_out(self, call: Call, known: Known) -> _Effect:
        def effect() -> tuple[int, KubeObject]:
            before = self._server.store.version
            status, value = self._server.execute(call)
            if call.decides and status < 300 and self._server.store.version > before:
                self._judge.decided(self._caller, call, known)
            return status, value

        return effect

    def _told(self, call: Call, status: int, value: KubeObject) -> None:
        caller, now = self._caller, self._server.clock.seconds
        if status >= 300:
            return
        caller.show(value)
        self._judge.told(caller, call)
        if call.resource == "configmaps":
            items = value["items"]
            caller.learn_quota(items[0] if items else None)
        whole = call.method == "GET" and call.named == ("", "")
        selected = bool(call.query.get("fieldSelector"))
        if call.resource == "configmaps" or (whole and not selected):
            caller.listed(call.resource, int(value["metadata"]["resourceVersion"]))
        if call.decides or (whole and selected and call.resource == "pods"):
            caller.fresh_at = now

    def _watch(self, call: Call) -> Response:
        caller = self._caller
        try:
            pending = self._server.changes(call.resource, int(call.query["resourceVersion"]))
        except StoreError as error:
            return _failed(error.status)
        lines = []
        selectors = call.query.get("fieldSelector", ""), call.query.get("labelSelector", "")
        fresh = pending[: caller.deliver]
        for change in fresh:
            caller.watched(call.resource, change.version)
            if not kube_rules.matches(change.after, *selectors):
                continue
            caller.show(change.after)
            if change.key[0] == "configmaps":
                caller.learn_quota(None if change.kind == "DELETED" else change.after)
            lines.append({"type": change.kind, "object": change.after})
        if len(fresh) == len(pending):
            caller.watched(call.resource, self._server.store.version)
            if caller.bookmarks:
                version = {"metadata": {"resourceVersion": str(self._server.store.version)}}
                lines.append({"type": "BOOKMARK", "object": version})
        return Response(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def _failed(status: int) -> Response:
    body = {"kind": "Status", "metadata": {}, "code": status, "reason": "", "message": "planned"}
    return Response(status, json.dumps(body).encode())


def _seconds(timeout: urllib3.Timeout) -> float:
    return timeout.total if isinstance(timeout.total, int | float) else 0.0
