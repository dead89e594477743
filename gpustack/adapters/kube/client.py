"""Requests to the API server: JSON in, JSON out, every call with a time limit.

See https://kubernetes.io/docs/reference/using-api/api-concepts/ for paths, patches and watches.
"""

import contextlib
import functools
import logging
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import urllib3

import gpustack
from gpustack.adapters.kube import connect, kubeconfig
from gpustack.adapters.kube.errors import KubeTimeout, KubeUnavailable
from gpustack.adapters.kube.exchange import (
    ApiResponse,
    exchange,
    read_beginning,
    read_whole,
    request,
)
from gpustack.adapters.kube.listing import Page, decode_object, decode_refusal
from gpustack.adapters.kube.paging import MOST_ITEMS, read_pages

logger = logging.getLogger(__name__)

_Answered = TypeVar("_Answered")

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

_WHO: Final = {"user-agent": f"gpustack/{gpustack.__version__}"}

# Asking twice does the same as asking once: our patches set values, they don't add to them.
_IDEMPOTENT: Final = frozenset({"GET", "PATCH"})
_CONNECT_SECONDS: Final = 5.0  # a control plane is on the local network


class KubeClient:
    """One API server, under one identity. Safe to share between threads."""

    def __init__(self, connection: connect.ApiConnection, *, timeout_seconds: float = 10.0) -> None:
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
        return cls.of_context(kubeconfig.read([Path(path)]), timeout_seconds=timeout_seconds)

    @classmethod
    def of_context(
        cls, context: kubeconfig.Context, *, timeout_seconds: float = 10.0
    ) -> "KubeClient":
        """Use a context of a kubeconfig that was read; arguments and errors as above."""
        return cls(connect.open_context(context), timeout_seconds=timeout_seconds)

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
        return decode_object(self.get_raw(path, params, timeout_seconds=timeout_seconds))

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
        self,
        path: str,
        params: Mapping[str, str],
        *,
        timeout: Callable[[], float] | None = None,
        most: int = MOST_ITEMS,
        first: int = MOST_ITEMS,
    ) -> Iterator[Page]:
        """Read a list page by page; without a ``resourceVersion`` it is consistent.

        Args:
            path: the collection.
            params: query parameters, such as selectors.
            timeout: gives the seconds that the next page may take; left out, the client's own.
            most: how many objects a page may have.
            first: how many the first one may have.

        Raises:
            KubeError: the server refused; 410 a list took longer than its version is kept.
            KubeUnavailable: no answer in time.
        """

        def ask(wanted: Mapping[str, str]) -> bytes:
            seconds = None if timeout is None else timeout()
            return self.get_raw(path, {**params, **wanted}, timeout_seconds=seconds)

        return read_pages(ask, most, first)

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
        return decode_object(raw)

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
        self, path: str, body: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> dict[str, Any]:
        """Create an object or a subresource (a Binding, an Event).

        Raises:
            KubeError: refused; 409 it exists, or a precondition does not hold.
            KubeUnavailable: no answer in time; it may have been created.
        """
        raw = self._request("POST", path, body=body, timeout_seconds=timeout_seconds)
        return decode_object(raw)

    def delete(
        self, path: str, options: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> None:
        """Delete an object, as DeleteOptions say; errors as in ``post``."""
        self._request("DELETE", path, body=options, timeout_seconds=timeout_seconds)

    @contextlib.contextmanager
    def stream(
        self, path: str, params: Mapping[str, str], *, idle_seconds: float
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Open an answer that has no end, such as a watch; closed when the block is left.

        Args:
            path: the object or collection.
            params: query parameters.
            idle_seconds: longest silence before the connection counts as dead.

        Raises:
            KubeError: the server refused.
            KubeUnavailable: no connection, or it broke while the block was reading.
        """

        def ask() -> urllib3.BaseHTTPResponse:
            return self._connection.pool.request(
                "GET",
                self._connection.server + _with(path, params),
                headers=self._headers(),
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=idle_seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )

        response = None
        try:
            response, _ = self._ask("GET", path, ask)
            if response.status >= 400:
                raise decode_refusal(
                    response.status, read_beginning(response, self._timeout_seconds)
                )
            yield response
        except urllib3.exceptions.HTTPError as error:
            raise KubeUnavailable(f"GET {path}: {error}") from error
        finally:
            if response is not None:
                # The connection stays out of the pool: the rest of the answer is never read.
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
        data = None if body is None else msgspec.json.encode(body)
        headers = self._headers()
        if data is not None:
            headers["content-type"] = content_type
        target = _with(path, params)
        send = functools.partial(self._send, method, target, headers, data, seconds)
        try:
            answer, again = self._ask(method, path, send)
        except urllib3.exceptions.TimeoutError as error:
            raise KubeTimeout(f"{method} {path}: {error}") from error
        except urllib3.exceptions.HTTPError as error:
            raise KubeUnavailable(f"{method} {path}: {error}") from error
        if answer.status >= 300:
            refusal = decode_refusal(answer.status, answer.data)
            if again and method != "GET" and not (refusal.conflict or refusal.not_found):
                # The first try may have succeeded before this refusal of the second.
                text = f"{method} {path}: {refusal}, after a first try without an answer"
                raise KubeUnavailable(text) from refusal
            try:
                raise refusal
            finally:
                # It refers to this frame: both, and `body`, would stay until Python seeks garbage.
                del refusal
        return answer.data

    def _ask(self, method: str, path: str, send: Callable[[], _Answered]) -> tuple[_Answered, bool]:
        """Send a request; returns the answer, and whether it was sent twice."""
        try:
            return send(), False
        except urllib3.exceptions.ProtocolError:
            # The server closed an idle connection of the pool just as we took it.
            if method not in _IDEMPOTENT:
                raise
            logger.debug("connection was closed, asking again method=%s path=%s", method, path)
        return send(), True

    def _send(
        self, method: str, target: str, headers: dict[str, str], body: bytes | None, seconds: float
    ) -> ApiResponse:
        direct = self._connection.direct
        if direct is not None:
            return exchange(
                direct.pool,
                method,
                request(method, direct.prefix + target, {"host": direct.host, **headers}, body),
                connect_seconds=_CONNECT_SECONDS,
                seconds=seconds,
            )
        until = time.monotonic() + seconds
        connect = min(_CONNECT_SECONDS, seconds)
        response = self._connection.pool.request(
            method,
            self._connection.server + target,
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(connect=connect, read=seconds, total=seconds),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        return ApiResponse(status=response.status, data=read_whole(response, until))

    def _headers(self) -> dict[str, str]:
        return {"accept": "application/json", **_WHO, **self._connection.authorization()}


def _with(path: str, params: Mapping[str, str] | None) -> str:
    """Return a path with its query."""
    return f"{path}?{urllib.parse.urlencode(params)}" if params else path
