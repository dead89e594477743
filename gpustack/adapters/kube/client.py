"""Requests to the API server: JSON in, JSON out, every call with a time limit.

See https://kubernetes.io/docs/reference/using-api/api-concepts/ for paths, patches and watches.
"""

import contextlib
import json
import logging
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import urllib3

from gpustack.adapters.kube import connect
from gpustack.adapters.kube.errors import KubeError, KubeUnavailable
from gpustack.adapters.kube.listing import Page, decode_page

logger = logging.getLogger(__name__)

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

# Asking twice does the same as asking once: our patches set values, they don't add to them.
_IDEMPOTENT: Final = frozenset({"GET", "PATCH"})
_PAGE_ITEMS: Final = 1000  # about 10 MB of nodes with their image lists
_CONNECT_SECONDS: Final = 5.0  # a control plane is on the local network


class KubeClient:
    """One API server, under one identity. Safe to share between threads."""

    def __init__(self, connection: connect.Connection, *, timeout_seconds: float = 10.0) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds

    @classmethod
    def from_kubeconfig(cls, path: str | Path, *, timeout_seconds: float = 10.0) -> "KubeClient":
        """Use the current context of a kubeconfig file.

        Args:
            path: the file.
            timeout_seconds: longest wait for any answer, unless a call sets its own.

        Raises:
            KubeConfigError: the file can't be used.
        """
        return cls(connect.open_kubeconfig(Path(path)), timeout_seconds=timeout_seconds)

    def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Read an object or a list, decoded.

        Raises:
            KubeError: the server refused.
            KubeUnavailable: no answer in time.
        """
        return _decoded(self.get_raw(path, params, timeout_seconds=timeout_seconds))

    def get_raw(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Read an object or a list as the server sent it; errors as in ``get``."""
        return self._request("GET", path, params=params, timeout_seconds=timeout_seconds)

    def pages(
        self, path: str, params: Mapping[str, str], *, timeout: Callable[[], float] | None = None
    ) -> Iterator[Page]:
        """Read a list page by page; without a ``resourceVersion`` it is consistent.

        Args:
            path: the collection.
            params: query parameters, such as selectors.
            timeout: gives the seconds that the next page may take; left out, the client's own.

        Raises:
            KubeError: the server refused; 410 a list took longer than the server remembers.
            KubeUnavailable: no answer in time.
        """
        wanted = {**params, "limit": str(_PAGE_ITEMS)}
        while True:
            seconds = None if timeout is None else timeout()
            page = decode_page(self.get_raw(path, wanted, timeout_seconds=seconds))
            yield page
            if not page.following:
                return
            wanted["continue"] = page.following

    def patch(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        content_type: str = STRATEGIC_MERGE_PATCH,
        timeout_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Change an object; ``metadata.uid`` in the body makes it that very object or none.

        Raises:
            KubeError: refused; 404 it is gone, 422 another object has its name now, 409 a
                ``resourceVersion`` in the body is not the current one.
            KubeUnavailable: no answer in time; the change may have happened.
        """
        raw = self.patch_raw(path, body, content_type=content_type, timeout_seconds=timeout_seconds)
        return _decoded(raw)

    def patch_raw(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        content_type: str = STRATEGIC_MERGE_PATCH,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Change an object; returns it as the server sent it; errors as in ``patch``."""
        return self._request(
            "PATCH", path, body=body, content_type=content_type, timeout_seconds=timeout_seconds
        )

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        timeout_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Create an object or a subresource (a Binding, an Event).

        Raises:
            KubeError: refused; 409 it exists, or a precondition does not hold.
            KubeUnavailable: no answer in time; it may have been created.
        """
        return _decoded(self._request("POST", path, body=body, timeout_seconds=timeout_seconds))

    @contextlib.contextmanager
    def stream(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Open an answer that has no end, such as a watch; closed when the block is left.

        Args:
            path: what to read.
            params: query parameters.
            idle_seconds: longest silence before the connection counts as dead.

        Raises:
            KubeError: the server refused.
            KubeUnavailable: no connection, or it broke while the block was reading.
        """
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=idle_seconds)
        response = None
        try:
            response, _ = self._ask("GET", path, params=params, timeout=timeout, preload=False)
            if response.status >= 400:
                raise _refusal(response.status, response.read())
            yield response
        except urllib3.exceptions.HTTPError as error:
            raise KubeUnavailable(f"GET {path}: {error}") from error
        finally:
            if response is not None:
                # Not back into the pool: the rest of the answer is never read.
                response.close()

    def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> bytes:
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        timeout = urllib3.Timeout(
            connect=min(_CONNECT_SECONDS, seconds), read=seconds, total=seconds
        )
        try:
            response, again = self._ask(
                method, path, params=params, body=body, content_type=content_type, timeout=timeout
            )
        except urllib3.exceptions.HTTPError as error:
            raise KubeUnavailable(f"{method} {path}: {error}") from error
        if response.status >= 300:
            refusal = _refusal(response.status, response.data)
            if again and method != "GET" and not (refusal.conflict or refusal.not_found):
                # The first try may have come through: this no is not the last word on it.
                text = f"{method} {path}: {refusal}, after a first try without an answer"
                raise KubeUnavailable(text) from refusal
            raise refusal
        return response.data

    def _ask(self, method: str, path: str, **options: Any) -> tuple[urllib3.BaseHTTPResponse, bool]:
        """Send a request; returns the response, and whether it was sent twice."""
        try:
            return self._send(method, path, **options), False
        except urllib3.exceptions.ProtocolError:
            # The server closed a connection that lay idle in the pool just as we took it.
            if method not in _IDEMPOTENT:
                raise
            logger.debug("connection was closed, asking again method=%s path=%s", method, path)
        return self._send(method, path, **options), True

    def _send(
        self,
        method: str,
        path: str,
        *,
        timeout: urllib3.Timeout,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        preload: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"accept": "application/json", **self._connection.authorization()}
        if body is not None:
            headers["content-type"] = content_type
        url = self._connection.server + path
        if params:
            url = f"{url}?{urllib.parse.urlencode(params)}"
        return self._connection.pool.request(
            method,
            url,
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=preload,
        )


def _decoded(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise KubeUnavailable(f"the answer is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise KubeUnavailable(f"the answer is a JSON {type(value).__name__}, not an object")
    return value


def _refusal(status: int, raw: bytes) -> KubeError:
    """Read the ``Status`` object of an error; proxies answer with plain text."""
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return KubeError(status, "", raw[:500].decode(errors="replace").strip())
    return KubeError(status, str(answer.get("reason") or ""), str(answer.get("message") or ""))
