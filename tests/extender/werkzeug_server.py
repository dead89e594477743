"""A minimal implementation of the HTTP server's interface: werkzeug's own development server.

The tests of routes and verbs run on it; ``test_promises`` lists the promises that it breaks.
"""

import logging
import os
import signal
import ssl
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import werkzeug.serving

from extender.http.interface import CONNECTION, Application, Compose, HttpSettings
from gpustack.adapters.web.tls import TlsContexts

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment


class _Handler(werkzeug.serving.WSGIRequestHandler):
    def make_environ(self) -> "WSGIEnvironment":
        environ = super().make_environ()
        environ[CONNECTION] = self.connection
        return environ

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log nothing: a test's output is its failures."""


def listening(
    host: str, port: int, routes: "WSGIApplication", context: ssl.SSLContext | None = None
) -> werkzeug.serving.BaseWSGIServer:
    """Return werkzeug's server, on its port already."""
    return werkzeug.serving.make_server(
        host, port, routes, threaded=True, request_handler=_Handler, ssl_context=context
    )


class WerkzeugServer:
    """Serves one application until a signal ends it."""

    def __init__(self, settings: HttpSettings, compose: Compose) -> None:
        self._settings = settings
        self._contexts = None if settings.tls is None else TlsContexts(settings.tls)
        self._application: Application = compose()

    def run(self) -> None:
        context = None if self._contexts is None else self._contexts.current().openssl
        settings = self._settings
        server = listening(settings.host, settings.port, self._application.routes, context)

        def end(_signal: int, _frame: object) -> None:
            threading.Thread(target=server.shutdown).start()

        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, end)
        server.service_actions = self._application.tick  # type: ignore[method-assign]
        self._application.ready()
        # by this message tests know the process that answers
        logging.getLogger(__name__).info("Booting worker with pid: %d", os.getpid())
        # the port closes with the process, and the threads that answer end with it
        server.server_close = lambda: None  # type: ignore[method-assign]
        server.serve_forever()
        self._application.stop()


if __name__ == "__main__":
    from tests.extender.http import waiting

    waiting.main(Path(sys.argv[2]), WerkzeugServer)
