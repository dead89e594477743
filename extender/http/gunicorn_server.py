"""Gunicorn around an application: one worker process, because decisions need one memory.

Why one process, and why threads in it: docs/decisions/0005-one-writing-process.md. Gunicorn starts
and replaces the process, hands it the port and the signals, and reads every head that isn't the
scheduler's own; connections and threads are ours (``loop``, ``request_threads``).

This is the only file that knows gunicorn. Its documents promise ``BaseApplication`` with ``load``,
``load_config`` and ``cfg.set``, the settings, and that ``worker_class`` and ``logger_class`` take
a subclass of their own. They promise nothing of these names (by the versions 19.0 to 27.0; the
first that has all of them is 20.1):

===================================== ===== ====================================================
name                                  since what for
===================================== ===== ====================================================
``Arbiter.run``                       19.0  the process that starts the worker
``Arbiter.handle_hup, _ttin, _usr2``  19.0  signals that would start a second worker
``Worker.app, cfg, ppid, sockets``    19.0  what the worker is given
``Worker.alive``                      19.0  told to stop before there is a loop
``Worker.run, handle_exit, notify``   19.0  begin, SIGTERM, the beat that the arbiter waits for
``Worker.wsgi``                       19.0  the application's routes, loaded
``Worker.handle_error``               19.0  the answer to what is no request
``http.RequestParser`` (3 arguments)  20.1  reads a head
``Request.headers, version, body``    19.0  the request
``http.wsgi.create``                  19.0  a request's environment and response
``Response.start_response, write``    19.0  the response
``Response.close, force_close``       19.0  its end, and the connection's
``Response.should_close``             19.0  whether the connection may be kept
``glogging.Logger.setup, warning``    19.0  its words go to our log, seldom
``glogging.Logger.error_log``         19.0  the logger behind them
===================================== ===== ====================================================

`make outlook` tries them with the newest version there is.
"""

import functools
import io
import logging
import os
from typing import TYPE_CHECKING, Any, Final

import gunicorn.app.base
import gunicorn.arbiter
import gunicorn.glogging
import gunicorn.http
import gunicorn.http.wsgi
import gunicorn.workers.base

from extender.http import loop
from extender.http.connection import ClientConnection
from extender.http.interface import CONNECTION, HOLD_SECONDS, Application, Compose, HttpSettings
from extender.http.request_buffer import RequestBuffer
from extender.http.request_threads import RequestThreads
from gpustack.adapters.web.rate_limited_log import RateLimitedLog
from gpustack.adapters.web.tls import TlsContexts

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

logger = logging.getLogger(__name__)

_BACKLOG: Final = 128
# A loop that stands still so long is killed by the arbiter, which starts a new worker.
_STUCK_SECONDS: Final = 30
_SAID: Final = 200  # characters of a warning of gunicorn's, which may quote 8 KB of a header


class GunicornServer(gunicorn.app.base.BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Serves one application until a signal ends it.

    Attributes:
        settings: what the operator decided.
        contexts: TLS for the next connection; None for plain HTTP.
        application: what is served, in the worker process.
    """

    def __init__(self, settings: HttpSettings, compose: Compose) -> None:
        """Prepare; ``run`` serves what ``compose`` makes in the worker process.

        Raises:
            TlsError: the settings' certificates can't be used.
        """
        self.settings = settings
        self.contexts = None if settings.tls is None else TlsContexts(settings.tls)
        self.application: Application
        self._compose = compose
        super().__init__()

    def load_config(self) -> None:
        """Configure gunicorn; nothing is read from its own files or environment."""
        settings = self.settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        options: dict[str, Any] = {
            "bind": [f"{host}:{settings.port}"],
            "workers": 1,
            "worker_class": _Worker,
            "threads": settings.threads,
            "timeout": _STUCK_SECONDS,
            "backlog": _BACKLOG,
            "graceful_timeout": loop.STOP_SECONDS,
            "proc_name": "gpustack-extender",
            "loglevel": settings.log_level.lower(),
            "logger_class": _Log,
            "post_worker_init": lambda _worker: self.application.ready(),
            "worker_exit": self._worker_exit,
            "control_socket_disable": True,  # a root-only socket in the home folder otherwise
            # Our callers reach us without a proxy. By default a loopback caller's SCRIPT_NAME
            # header is believed, and one that doesn't suit the path is a 500.
            "forwarded_allow_ips": "",
        }
        for name, value in options.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def run(self) -> None:
        """Serve until a signal ends it."""
        # It is the application's to say when it is ready; gunicorn would, before there is a worker.
        os.environ.pop("NOTIFY_SOCKET", None)
        _Arbiter(self).run()

    def load(self) -> "WSGIApplication":
        """Compose the application in the worker process; returns its routes."""
        self.application = self._compose()
        return self.application.routes

    def _worker_exit(self, _arbiter: object, _worker: object) -> None:
        if hasattr(self, "application"):  # as far as it could be composed
            self.application.stop()


def parse(cfg: Any, arrived: RequestBuffer, client: Any) -> Any:
    """Read a request with gunicorn's parser.

    Raises:
        gunicorn.http.errors.ParseException: it isn't one.
    """
    request = next(gunicorn.http.RequestParser(cfg, [arrived.head], client))
    request.body = io.BytesIO(arrived.body)
    return request


def is_last(request: Any, arrived: RequestBuffer) -> bool:
    """Tell whether the connection ends after a request, whatever gunicorn's parser says of it."""
    # Of a body that is chunked or not waited for, the end is not known. Gunicorn reads `close`
    # where nothing stands beside it; it is one of a list (RFC 9110, 7.6.1).
    closes = (
        name == "TRANSFER-ENCODING"
        or (
            name == "CONNECTION"
            and "close" in (one.strip(" \t") for one in value.lower().split(","))
        )
        for name, value in request.headers
    )
    return arrived.refused or request.version == (1, 0) or any(closes)


class _Worker(gunicorn.workers.base.Worker):  # type: ignore[misc]  # gunicorn has no types
    """The process that answers."""

    _loop: loop.ConnectionLoop | None = None

    def run(self) -> None:
        """Serve until the process is told to stop."""
        server, application = self.app, self.app.application
        self._threads = RequestThreads(server.settings, application.calls, self._answer)
        self._loop = loop.ConnectionLoop(
            server.settings,
            server.contexts,
            self._threads,
            on_tick=self._tick,
            on_refused=application.refused,
        )
        if not self.alive:  # told so before there was a loop
            self._loop.stop()
        self._loop.run(*self.sockets)

    def handle_exit(self, sig: int, frame: object) -> None:
        """Finish what has begun."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.stop()

    def _tick(self) -> None:
        """Show the arbiter and the application that the loop turns."""
        self.notify()
        self.app.application.tick()
        if self._threads.alive and self.ppid != os.getppid():
            logger.error("the arbiter has gone; this process ends")
            self.handle_exit(0, None)

    def _answer(self, conn: ClientConnection, arrived: RequestBuffer) -> bool:
        """Answer a request by gunicorn's parser and the application's routes."""
        request = None
        try:
            request = parse(self.cfg, arrived, conn.client)
            return self._respond(request, conn, last=is_last(request, arrived))
        except Exception as error:
            self.handle_error(request, conn.outgoing, conn.client, error)
            return False

    def _respond(self, request: Any, conn: ClientConnection, *, last: bool) -> bool:
        response, environ = gunicorn.http.wsgi.create(
            request, conn.outgoing, conn.client, conn.server, self.cfg
        )
        environ["wsgi.multithread"] = True
        environ[CONNECTION] = conn.sock
        if last or not self._threads.alive:
            response.force_close()
        pieces = self.wsgi(environ, response.start_response)
        conn.hold_seconds = environ.get(HOLD_SECONDS, 0.0)
        try:
            for piece in pieces:
                response.write(piece)
            response.close()
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        return not response.should_close()


class _Arbiter(gunicorn.arbiter.Arbiter):  # type: ignore[misc]  # gunicorn has no types
    """Keeps one worker: at each of these signals gunicorn starts another one beside it.

    Two that answer on one port, each with what it has assumed itself, would give cards twice. A new
    worker would know nothing of the cluster, and a new process outlive this one.
    """

    def _ignore(self, name: str) -> None:
        text = (
            "%s is ignored; certificates are read again by themselves, other settings at a restart"
        )
        logger.warning(text, name)

    handle_hup = functools.partialmethod(_ignore, "SIGHUP")
    handle_ttin = functools.partialmethod(_ignore, "SIGTTIN")
    handle_usr2 = functools.partialmethod(_ignore, "SIGUSR2")


class _Log(gunicorn.glogging.Logger):  # type: ignore[misc]  # gunicorn has no types
    """Gunicorn's words in our log's form."""

    def setup(self, cfg: Any) -> None:
        """Hand everything to the root logger, instead of writing lines of its own form."""
        self._seldom = RateLimitedLog()
        super().setup(cfg)
        self.error_log.handlers = []
        self.error_log.propagate = True

    def warning(self, msg: str, *args: Any, **_options: Any) -> None:
        """Say it seldom and in short: among others, the words of each request that isn't one."""
        said = (msg % args if args else msg)[:_SAID]
        if self._seldom.may_say(said):
            super().warning("%s", said)
