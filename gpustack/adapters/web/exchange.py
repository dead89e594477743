"""One HTTP request and its response as bytes: the standard library's parser, without sockets."""

import dataclasses
import http
import http.server
import io
import logging
from typing import Final

logger = logging.getLogger(__name__)

_METHODS: Final = ("GET", "HEAD")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The content of a response."""

    status: http.HTTPStatus = http.HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""


def refused(status: int, text: str) -> Response:
    """Return an answer that is a line of text."""
    return Response(status=http.HTTPStatus(status), body=text.encode() + b"\n")


class Exchange(http.server.BaseHTTPRequestHandler):
    """A request whose head has been read; no body may follow it.

    Attributes:
        refusal: its fault for any server; None for a request that may be answered.
        hosts: the values of its headers `Host`.
        needs_host: whether it must have one (RFC 9112, 3.2).
        path: without a query.
        accept: its `Accept`.
        authorization: the values of its headers `Authorization`.
        is_over: it is malformed, and `reply` has the parser's own answer.
    """

    END: Final = b"\r\n\r\n"  # of a head (RFC 9112, 2.1)

    server_version = "gpustack"
    sys_version = ""  # clients don't learn which Python runs here
    default_request_version = "HTTP/1.0"  # a malformed request gets a status, too
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s\n"

    def __init__(self, head: bytes) -> None:
        # Not the base's: it would read from a socket, answer, and end.
        self.rfile = io.BytesIO(head)
        self.wfile = self._written = io.BytesIO()
        self.command = self.requestline = self.path = self.accept = ""
        self.hosts: list[str] = []
        self.authorization: list[str] = []
        self.needs_host = False
        self.refusal: Response | None = None
        self.raw_requestline = self.rfile.readline()
        if self.END not in head:
            self.request_version = self.default_request_version
            self.send_error(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self.parse_request():
            self._read()
        elif not self._written.getvalue():
            self.send_error(http.HTTPStatus.BAD_REQUEST)
        self.is_over = bool(self._written.getvalue())

    def reply(self, answer: Response | None) -> bytes:
        """Return the response as bytes; for a malformed request the parser's own."""
        if not self.is_over and answer is not None:
            self.is_over = True
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            if answer.status == http.HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", ", ".join(_METHODS))
            if answer.status == http.HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")  # RFC 9110, 15.5.2: it must
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else answer.body)
        return self._written.getvalue()

    def log_message(self, format: str, *args: object) -> None:
        """Log at debug: scrapes come every few seconds."""
        logger.debug(format, *args)

    def _read(self) -> None:
        # The base leaves the blanks at a value's end (RFC 9110, 5.5).
        self.hosts = [value.strip(" \t") for value in self.headers.get_all("Host", [])]
        self.needs_host = self.request_version == "HTTP/1.1"
        self.path = self.path.partition("?")[0]
        self.authorization = self.headers.get_all("Authorization", [])
        self.accept = ",".join(self.headers.get_all("Accept", []))
        has_body = self.headers.get("Content-Length", "0") != "0"
        if self.command not in _METHODS:
            text = "GET and HEAD are all that is answered"
            self.refusal = refused(http.HTTPStatus.METHOD_NOT_ALLOWED, text)
        elif has_body or "Transfer-Encoding" in self.headers:
            text = "no page takes a body"
            self.refusal = refused(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
