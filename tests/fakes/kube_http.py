"""HTTP of the fake API server: paths to store operations, lists in pages, watches in chunks."""

import base64
import contextlib
import dataclasses
import http.server
import json
import re
import socket
import ssl
import threading
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from tests.fakes import kube_rules
from tests.fakes.kube_objects import created_key, replaced, selectors, status_of
from tests.fakes.kube_store import Change, Key, KubeObject, StoreError

if TYPE_CHECKING:
    from tests.fakes.kube_api import FakeKubeApi

_PATH = re.compile(
    r"^/(?:api/v1|apis/[^/]+/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?$"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it arrived; ``body`` is decoded JSON or None."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Server(http.server.ThreadingHTTPServer):
    """Threads, optional TLS, and connections that a test can break."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        handler: type["Handler"],
        *,
        api: "FakeKubeApi",
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__(address, handler)
        self.api = api
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()

    def finish_request(self, request: Any, client_address: Any) -> None:
        # The connection's own thread shakes hands: a slow handshake delays no other connection.
        if self._tls is not None:
            request = self._tls.wrap_socket(request, server_side=True)
        with self._open_lock:
            self._open.add(request)
        try:
            super().finish_request(request, client_address)
        finally:
            with self._open_lock:
                self._open.discard(request)
            if self._tls is not None:
                request.close()  # the base class only knows the socket under it

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: tests break connections on purpose."""

    def connections(self) -> list[socket.socket]:
        with self._open_lock:
            return list(self._open)

    def drop_connections(self) -> None:
        for connection in self.connections():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def server_close(self) -> None:
        self.api.faults.release()
        super().server_close()
        self.drop_connections()


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        self._answer()

    # The base class looks methods up by these names.
    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, for clean output; ``FakeKubeApi.requests`` has the requests."""

    def _answer(self) -> None:
        request = self._read()
        api = self.server.api
        api.requests.append(request)
        fault = api.faults.take(request.method, request.path, request.query)
        if fault is not None:
            fault.reached.set()
            if fault.gate is not None:
                fault.gate.wait(30)
            if fault.drop == "before":
                return self._break()
            if fault.status:
                return self._send(fault.status, status_of(fault.status, fault.reason, "injected"))
        try:
            status, body = self._route(request)
        except StoreError as error:
            status, body = error.status, status_of(error.status, error.reason, error.message)
        if fault is not None and fault.drop == "after":
            return self._break()
        if body is not None:
            # which a server knows by the path; that of the version is no object
            kind = {} if request.path == "/version" else {"kind": "Object"}
            self._send(status, {**kind, **body})
        return None

    def _read(self) -> Request:
        url = urllib.parse.urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return Request(
            method=self.command,
            path=url.path,
            query=dict(urllib.parse.parse_qsl(url.query)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=json.loads(raw) if raw else None,
        )

    def _break(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, body: KubeObject) -> None:
        self._send_raw(status, "application/json", json.dumps(body).encode())

    def _send_raw(self, status: int, kind: str, raw: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _route(self, request: Request) -> tuple[int, KubeObject | None]:
        if request.path == "/version":
            return 200, {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
        path = _PATH.match(request.path)
        if path is None:
            raise StoreError(404, "NotFound", f"no such path: {request.path}")
        key: Key = (path["resource"], path["namespace"] or "", path["name"] or "")
        if request.method == "GET" and not path["name"]:
            if request.query.get("watch") in {"1", "true"}:
                return self._watch(key, request.query)
            return 200, self._list(key, request.query)
        api, body = self.server.api, request.body or {}
        if request.method == "POST" and key[0] in kube_rules.REVIEWS:
            return 201, kube_rules.reviewed(key[0], body, api.tokens, api.rights)
        if request.method == "GET" and path["sub"] == "log":
            store = self.server.api.store
            self._send_raw(200, "text/plain", store.get(key)["log"].encode())
            return 200, None
        return self._object(request, key, path["sub"] or "")

    def _object(self, request: Request, key: Key, sub: str) -> tuple[int, KubeObject]:
        store = self.server.api.store
        body = request.body or {}
        match request.method, sub:
            case "GET", _:
                return 200, store.get(key)
            case "POST", "binding":
                store.update(key, lambda pod: kube_rules.bound(pod, body))
                return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
            case "POST", "":
                return 201, store.create(created_key(key, body), body)
            case "PATCH", "" | "status":
                kind = request.headers.get("content-type", "")
                return 200, store.update(
                    key, lambda old: kube_rules.written(key[0], sub, old, body, kind)
                )
            case "PUT", "" | "status":
                return 200, store.update(key, lambda old: replaced(old, body))
            case "DELETE", "":
                found = store.get(key)
                uid = found["metadata"].get("uid")
                if (wanted := body.get("preconditions", {}).get("uid", uid)) != uid:
                    text = f"Precondition failed: UID in precondition: {wanted}"
                    raise StoreError(409, "Conflict", text)
                stays = key[0] == "pods" and kube_rules.stays(found, body)
                return 200, (
                    store.update(key, lambda pod: kube_rules.leaving(pod, body))
                    if stays
                    else store.delete(key)
                )
        raise StoreError(405, "MethodNotAllowed", f"{request.method} {request.path}")

    def _list(self, key: Key, query: dict[str, str]) -> KubeObject:
        """One page; a ``continue`` token holds the version and the first item's position."""
        store = self.server.api.store
        version, items = store.list(key[0], key[1])
        items = [i for i in items if kube_rules.matches(i, *selectors(query))]
        start, limit = 0, int(query.get("limit") or 0)
        if query.get("continue"):
            version, start = json.loads(base64.b64decode(query["continue"]))
            if version < store.oldest:
                raise StoreError(410, "Expired", "The provided continue parameter is too old")
        page = items[start : start + limit] if limit else items[start:]
        metadata = {"resourceVersion": str(version)}
        if start + len(page) < len(items):
            token = json.dumps([version, start + len(page)]).encode()
            metadata["continue"] = base64.b64encode(token).decode()
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page}

    def _watch(self, key: Key, query: dict[str, str]) -> tuple[int, None]:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # A closed watch shows as an error of the socket.
        with contextlib.suppress(OSError):
            self._stream(key, query)
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True
        return 200, None

    def _stream(self, key: Key, query: dict[str, str]) -> None:
        api = self.server.api
        store = api.store
        version = int(query.get("resourceVersion") or 0)
        deadline = time.monotonic() + float(query.get("timeoutSeconds") or 3600)
        told_version = version  # the watcher's own; ``version`` counts changes of other objects too
        while time.monotonic() < deadline:
            with store.changed:
                if api.stopping:
                    return
                if version < store.oldest:
                    expired = status_of(410, "Expired", f"too old resource version: {version}")
                    return self._event("ERROR", expired)
                pending = [] if api.held else list(store.changes_after(version, key[0], key[1]))
                told = time.monotonic() - api.lag_seconds
                fresh = [change for change in pending if change.at <= told]
                newest = store.version
                bookmark = not api.held and told_version < api.bookmarked
                if not fresh and (pending or not bookmark):
                    # The next change, or the time of the oldest one that lags.
                    until = pending[0].at + api.lag_seconds if pending else deadline
                    store.changed.wait(timeout=max(0.0, until - time.monotonic()))
                    continue
            for change in fresh:
                if self._tell(change, *selectors(query)):
                    told_version = change.version
                version = change.version
            if bookmark and len(fresh) == len(pending):
                told_version = newest
                if query.get("allowWatchBookmarks") == "true":
                    self._event("BOOKMARK", {"metadata": {"resourceVersion": str(newest)}})
                    version = newest
        return None

    def _tell(self, change: Change, field_selector: str, label_selector: str) -> bool:
        """Send a selected change: an object that leaves is DELETED, one that enters ADDED."""
        selectors = (field_selector, label_selector)
        was = change.before is not None and kube_rules.matches(change.before, *selectors)
        now = change.kind != "DELETED" and kube_rules.matches(change.after, *selectors)
        if was or now:
            kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
            self._event(kind, change.after)
        return was or now

    def _event(self, kind: str, value: KubeObject) -> None:
        raw = json.dumps({"type": kind, "object": value}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()
