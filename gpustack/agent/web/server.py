"""The agent's HTTP server: a table of paths, each with a function that makes the answer."""

import dataclasses
import http
import http.server
import logging
import threading
from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

_READ_SECONDS = 10.0  # a client that doesn't finish its request keeps no thread
_LOOK_SECONDS = 0.1  # how soon a stop is noticed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response; the body is text."""

    status: http.HTTPStatus = http.HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    body: str = ""


class WebServer:
    """Serves GET for a fixed set of paths.

    Args:
        address: IP address to listen on.
        port: TCP port; 0 lets the kernel choose.
        pages: path to function.

    Raises:
        OSError: the address is taken or not ours.
    """

    def __init__(
        self, *, address: str, port: int, pages: Mapping[str, Callable[[], Answer]]
    ) -> None:
        class Handler(_Handler):
            timeout = _READ_SECONDS

        Handler.pages = pages
        self._server = http.server.ThreadingHTTPServer((address, port), Handler)
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_SECONDS,), name="http-serve", daemon=True
        )
        thread.start()
        stop.wait()
        self._server.shutdown()
        self._server.server_close()
        thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    pages: Mapping[str, Callable[[], Answer]] = {}

    def do_GET(self) -> None:
        """Answer one request."""
        page = self.pages.get(self.path.partition("?")[0])
        if page is None:
            self._send(Answer(status=http.HTTPStatus.NOT_FOUND, body="no such page\n"))
            return
        try:
            answer = page()
        except Exception:
            # A page must not end its connection without a status; the process goes on.
            logger.exception("page failed path=%s", self.path)
            answer = Answer(
                status=http.HTTPStatus.INTERNAL_SERVER_ERROR, body="failed; see the log\n"
            )
        self._send(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Log at debug: scrapes come every few seconds."""
        logger.debug(format, *args)

    def _send(self, answer: Answer) -> None:
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
