"""One TokenRequest to the API server, with a deadline and a bounded answer.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import ssl
import types
import urllib.parse
from collections.abc import Iterator
from typing import Any

from claims import Claims

_SECONDS = 20  # of the whole request: an API server answers within one
_MOST_BYTES = 1 << 16  # a token has 1 to 2 KB
_CREATED = 201
_UNAUTHORIZED = 401


class RequestError(Exception):
    """The API server gives no token."""


class ApiServer:
    """An API server that is asked with the token itself."""

    def __init__(self, server: str, authority: str) -> None:
        """Prepare requests to a server.

        Args:
            server: its URL.
            authority: of its certificate, PEM; empty takes those of the host.
        """
        url = urllib.parse.urlsplit(server)
        self._host, self._port, self._prefix = url.hostname or "", url.port, url.path.rstrip("/")
        self._context = None
        if url.scheme == "https":
            self._context = ssl.create_default_context(cadata=authority or None)
            # Authorities of some years ago lack what Python asks for from 3.13 on.
            self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def next_token(self, token: str, claims: Claims, seconds: int) -> str:
        """Ask for the token after this one, bound to the same Secret.

        Raises:
            RequestError: there is no answer in time, or none with a token.
        """
        path = (
            f"{self._prefix}/api/v1/namespaces/{claims.namespace}"
            f"/serviceaccounts/{claims.account}/token"
        )
        bound = {
            "kind": "Secret", "apiVersion": "v1",
            "name": claims.secret, "uid": claims.secret_uid,
        }  # fmt: skip
        body = {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds, "boundObjectRef": bound},
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            with _deadline():
                status, raw = self._post(path, json.dumps(body), headers)
        except (OSError, http.client.HTTPException) as error:
            raise RequestError(f"{self._host}: {error or type(error).__name__}") from error
        return self._token(status, raw)

    def _post(self, path: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        # Not by way of a proxy of the environment: the daemons, too, ask directly.
        connection = (
            http.client.HTTPSConnection(self._host, self._port, context=self._context)
            if self._context
            else http.client.HTTPConnection(self._host, self._port)
        )
        with contextlib.closing(connection):
            connection.request("POST", path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_BYTES + 1)

    def _token(self, status: int, raw: bytes) -> str:
        if len(raw) > _MOST_BYTES:
            raise RequestError(f"{self._host}: answers with more than {_MOST_BYTES} bytes")
        try:
            found: Any = json.loads(raw)
        except (ValueError, RecursionError):
            found = None
        said = found if isinstance(found, dict) else {}
        if status == _UNAUTHORIZED:
            raise RequestError(f"{self._host}: refuses the token, which has ended or was revoked")
        if status != _CREATED:
            text = " ".join(str(said.get("message", "")).split())[:500]
            raise RequestError(f"{self._host}: answers with status {status}: {text}")
        given = said.get("status")
        token = given.get("token") if isinstance(given, dict) else None
        if not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise RequestError(f"{self._host}: answers without a token")
        return token


@contextlib.contextmanager
def _deadline() -> Iterator[None]:
    """End what takes too long: a socket's own limit begins anew with each byte."""

    def end(_: int, __: types.FrameType | None) -> None:
        raise TimeoutError(f"no answer in {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
