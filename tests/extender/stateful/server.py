"""An API server that is a plain object: no sockets, no threads, no time but the test's.

It lies below the product's own client, in place of urllib3's pool. Its rules are those of the fake
on sockets (``tests/fakes``); what it adds is that every call is a point where something can happen:
an answer that is lost, a request that is carried out late, a process that dies, another request.
Watches don't run: they show what there is, as far as the test lets them, and end.
"""

import dataclasses
import json
import re
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import urllib3

from tests.fakes import kube_rules
from tests.fakes.kube_store import Change, KubeObject, Store, StoreError

_PATH = re.compile(
    r"^/(?:api/v1|apis/policy/v1)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?$"
)


class Crash(BaseException):
    """The process was killed at this point; nothing of it catches that."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, as the server gets it."""

    method: str
    path: str
    query: dict[str, str]
    body: KubeObject
    kind: str  # of the patch

    @property
    def decides(self) -> bool:
        """Whether it writes somewhere which cards a pod gets."""
        written = (self.body.get("metadata") or {}).get("annotations") or {}
        return any("/predicate-" in key and value is not None for key, value in written.items())

    @property
    def clears(self) -> bool:
        """Whether it removes what somebody wrote, before the decision itself."""
        written = (self.body.get("metadata") or {}).get("annotations") or {}
        return bool(written) and all(value is None for value in written.values())


class Clock:
    """The cluster's true time; each process has a clock that may differ."""

    def __init__(self) -> None:
        self.seconds = 1000.0


class Server:
    """The objects, and the plan of what happens at the calls to come."""

    def __init__(self) -> None:
        self.store = Store()
        self.clock = Clock()
        # Calls to let pass first, whether only writes count, what happens then; the first counts.
        self.plan: list[tuple[int, bool, str, Callable[[], None]]] = []
        self.late: list[Callable[[], None]] = []

    def planned(self, call: Call) -> tuple[str, Callable[[], None]]:
        """What happens at this call."""
        if not self.plan:
            return "", _nothing
        left, writes, what, act = self.plan[0]
        if writes and call.method == "GET":
            return "", _nothing
        if left:
            self.plan[0] = left - 1, writes, what, act
            return "", _nothing
        del self.plan[0]
        return what, act

    def execute(self, call: Call) -> tuple[int, KubeObject]:
        """Carry a request out."""
        try:
            return self._execute(call)
        except StoreError as error:
            status = {"kind": "Status", "metadata": {}, "code": error.status}
            return error.status, {**status, "reason": error.reason, "message": error.message}

    def _execute(self, call: Call) -> tuple[int, KubeObject]:
        found = _PATH.match(call.path)
        assert found is not None, call.path
        key = found["resource"], found["namespace"] or "", found["name"] or ""
        if call.method == "GET" and key[2]:
            return 200, self.store.get(key)
        if call.method == "GET":
            return 200, self._list(call, key[0], key[1])
        if call.method == "PATCH":
            return 200, self.store.update(
                key, lambda value: kube_rules.patched(value, call.body, call.kind)
            )
        assert (call.method, found["sub"]) == ("POST", "binding"), call
        self.store.update(key, lambda value: kube_rules.bound(value, call.body))
        return 201, {"kind": "Status", "status": "Success"}

    def _list(self, call: Call, resource: str, namespace: str) -> KubeObject:
        version, items = self.store.list(resource, namespace)
        selectors = call.query.get("fieldSelector", ""), call.query.get("labelSelector", "")
        items = [each for each in items if kube_rules.matches(each, *selectors)]
        return {"metadata": {"resourceVersion": str(version)}, "items": items}

    def changes(self, call: Call) -> list[Change]:
        """What a watch has to show."""
        found = _PATH.match(call.path)
        assert found is not None, call.path
        version = int(call.query["resourceVersion"])
        if version < self.store.oldest:
            raise StoreError(410, "Expired", "too old resource version")
        return list(self.store.changes_after(version, found["resource"], found["namespace"] or ""))


class Caller:
    """A process as the server sees it, and what it has been shown so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.shown: dict[str, int] = {}  # newest version of each pod and node, by UID
        self.quota: KubeObject | None = None
        self.no_quota_yet = True  # it has only seen one that can't be used: it decides nothing
        self.fresh_at = float("-inf")  # last acknowledged decision, or consistent list
        # What it must know of: all that was true when it began to decide after a pause.
        self.obliged = 0
        self.busy: set[str] = set()  # pods (UID) that it is just asked about
        self.deliver = 0
        self.bookmarks = False
        self.known: Known | None = None  # when the decision was made that is being written
        self.locked: Callable[[], bool] = lambda: False

    def die(self) -> None:
        """Nothing more comes from it."""
        self.alive = False
        raise Crash(self.name)

    def show(self, value: KubeObject) -> None:
        """Remember that it was given an object, alone or in a list."""
        for each in value.get("items") or (value,):
            metadata = each.get("metadata") or {}
            if "uid" in metadata:
                version = int(metadata["resourceVersion"])
                self.shown[metadata["uid"]] = max(version, self.shown.get(metadata["uid"], 0))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What somebody had been shown when it decided."""

    shown: dict[str, int]
    obliged: int
    quota: KubeObject | None


class Pool:
    """Stands where the client has its connections."""

    def __init__(self, server: Server, caller: Caller, judge: "Judge") -> None:
        self._server = server
        self._caller = caller
        self._judge = judge

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None,
        headers: dict[str, str],
        timeout: urllib3.Timeout,
        preload_content: bool,
        **_others: object,
    ) -> "Response":
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
        assert not self._caller.locked(), f"{call.method} {call.path} while others are locked out"
        if not preload_content:
            return self._watch(call)
        return self._answer(call, _seconds(timeout))

    def _answer(self, call: Call, seconds: float) -> "Response":
        caller = self._caller
        known = self._remember(call)
        what, act = self._server.planned(call)
        if what == "before":
            act()
        if what == "crash":
            caller.die()
        if what.isdigit():
            return Response(int(what), json.dumps(self._status(int(what))).encode())
        effect = self._carry_out(call, known)
        self._lose(what, call, effect, seconds)
        status, value = effect()
        if what == "after":
            act()
        if what == "crash after":
            caller.die()
        if not caller.alive:
            raise Crash(caller.name)
        if what in {"cut after", "504 after"}:
            self._judge.doubt(caller, call)
        if what == "cut after":
            raise urllib3.exceptions.ProtocolError("connection reset")
        if what == "504 after":
            return Response(504, json.dumps(self._status(504)).encode())
        self._told(call, status, value)
        return Response(status, json.dumps(value).encode())

    def _lose(
        self, what: str, call: Call, effect: Callable[[], tuple[int, KubeObject]], seconds: float
    ) -> None:
        """Give no answer, and do what was asked later, or never."""
        if what not in {"late", "silent", "cut"}:
            return
        self._judge.doubt(self._caller, call)
        if what == "cut":
            raise urllib3.exceptions.ProtocolError("connection reset")
        if what == "late":
            self._server.late.append(lambda: effect() and None)
        self._server.clock.seconds += seconds
        raise urllib3.exceptions.ReadTimeoutError(None, call.path, "no answer")  # type: ignore[arg-type]

    def _remember(self, call: Call) -> Known:
        """Note what is known now; what comes while strangers' cards are removed is too late."""
        caller = self._caller
        known = caller.known
        if known is None or not call.decides:
            known = Known(shown=dict(caller.shown), obliged=caller.obliged, quota=caller.quota)
        caller.known = known if call.clears else None
        return known

    def _carry_out(self, call: Call, known: Known) -> Callable[[], tuple[int, KubeObject]]:
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
        if call.method != "GET":
            self._judge.told(caller, call)
        if call.path.endswith("/configmaps"):
            items = value["items"]
            self._learn_quota(items[0] if items else None)
        if call.decides or (call.path == "/api/v1/pods" and call.query.get("fieldSelector")):
            caller.fresh_at = now

    def _learn_quota(self, value: KubeObject | None) -> None:
        try:
            self._caller.quota = None if value is None else json.loads(value["data"]["gpu_quota"])
        except ValueError:
            return  # the last good one holds
        self._caller.no_quota_yet = False

    def _watch(self, call: Call) -> "Response":
        caller = self._caller
        try:
            pending = self._server.changes(call)
        except StoreError as error:
            return Response(error.status, json.dumps(self._status(error.status)).encode())
        lines = []
        selectors = call.query.get("fieldSelector", ""), call.query.get("labelSelector", "")
        fresh = pending[: caller.deliver]
        for change in fresh:
            if not kube_rules.matches(change.after, *selectors):
                continue
            caller.show(change.after)
            if change.key[0] == "configmaps":
                self._learn_quota(None if change.kind == "DELETED" else change.after)
            lines.append({"type": change.kind, "object": change.after})
        if caller.bookmarks and len(fresh) == len(pending):
            version = {"metadata": {"resourceVersion": str(self._server.store.version)}}
            lines.append({"type": "BOOKMARK", "object": version})
        return Response(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    @staticmethod
    def _status(code: int) -> KubeObject:
        return {"kind": "Status", "metadata": {}, "code": code, "reason": "", "message": "planned"}


class Response:
    """An answer, all of it there."""

    def __init__(self, status: int, data: bytes) -> None:
        self.status = status
        self.data = data

    def read(self) -> bytes:
        return self.data

    def stream(self, amt: int) -> Iterator[bytes]:
        del amt
        if self.data:
            yield self.data

    def close(self) -> None:
        """Nothing is open."""

    def shutdown(self) -> None:
        """Nothing is open."""


class Judge:
    """Who is told of decisions; see ``truth``."""

    def decided(self, author: Caller, call: Call, known: Known) -> None:
        raise NotImplementedError

    def doubt(self, author: Caller, call: Call) -> None:
        raise NotImplementedError

    def told(self, author: Caller, call: Call) -> None:
        raise NotImplementedError


def _seconds(timeout: urllib3.Timeout) -> float:
    return timeout.total if isinstance(timeout.total, int | float) else 0.0


def _nothing() -> None:
    """What happens at most calls."""


def raw(value: Any) -> bytes:
    """An object as bytes, as a scheduler sends it."""
    return json.dumps(value).encode()
