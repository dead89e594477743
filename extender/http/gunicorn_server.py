"""Gunicorn around the application: one worker process, because decisions need one memory.

Why one process, and why threads in it: docs/decisions/0005-one-writing-process.md.
"""

import gc
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import flask
import gunicorn.app.base
import gunicorn.arbiter
import gunicorn.glogging

from extender.api.app import create_app
from extender.api.interfaces import ExtenderService
from extender.api.scheduler_api import SchedulerApi
from extender.extender import Extender
from extender.http.request_threads import Worker
from extender.http.tls import TlsContexts
from extender.observability.rate_limited_log import RateLimitedLog
from extender.settings import ExtenderSettings
from gpustack.adapters.systemd import Notifier

logger = logging.getLogger(__name__)

_STOP_SECONDS: Final = 10  # what began is finished: more than any decision takes
# Go's client keeps idle connections for 90 s; closing earlier costs it a failed call now and then.
_KEEP_ALIVE_SECONDS: Final = 120
_BACKLOG: Final = 128
# A scheduler opens a handful; below the 1024 files that systemd allows a process by default.
_CONNECTIONS: Final = 512
# A loop that stands still so long is killed by the arbiter, which starts a new worker.
_STUCK_SECONDS: Final = 30
_SAID: Final = 200  # characters of a warning of gunicorn's, which may quote 8 KB of a header


class Server(gunicorn.app.base.BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Serves one extender until a signal ends it.

    Attributes:
        settings: what the operator decided.
        contexts: TLS for the next connection; None for plain HTTP.
        service: the extender, in the worker process.
        calls: what answers the scheduler there.
    """

    def __init__(
        self,
        settings: ExtenderSettings,
        *,
        notifier: Notifier,
        watchdog_seconds: float,
        contexts: TlsContexts | None,
        compose: Callable[[ExtenderSettings], ExtenderService] = Extender,
    ) -> None:
        """Prepare; ``run`` serves.

        Args:
            settings: what the operator decided.
            notifier: the service manager.
            watchdog_seconds: how often it wants to hear from us at least; 0 for never.
            contexts: TLS; None for plain HTTP.
            compose: makes what is served, in the worker process.
        """
        self.settings = settings
        self.contexts = contexts
        self._notifier = notifier
        self._ping_seconds = watchdog_seconds / 3
        self._next_ping = 0.0
        self._status = ""
        self.service: ExtenderService | None = None
        self.calls: SchedulerApi | None = None
        self._compose = compose
        super().__init__()

    def load_config(self) -> None:
        """Configure gunicorn; nothing is read from its own files or environment."""
        settings = self.settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        options: dict[str, Any] = {
            "bind": [f"{host}:{settings.port}"],
            "workers": 1,
            "worker_class": Worker,
            "worker_connections": _CONNECTIONS,
            "threads": settings.threads,
            "timeout": _STUCK_SECONDS,
            "backlog": _BACKLOG,
            "keepalive": _KEEP_ALIVE_SECONDS,
            "graceful_timeout": _STOP_SECONDS,
            "proc_name": "gpustack-extender",
            "loglevel": settings.log_level.lower(),
            "logger_class": _Log,
            "post_worker_init": self._ready,
            "worker_exit": self._worker_exit,
            "control_socket_disable": True,  # a root-only socket in the home folder otherwise
            # Nobody stands between us and our callers. By default a loopback caller's SCRIPT_NAME
            # header is believed, and one that doesn't suit the path is a 500.
            "forwarded_allow_ips": "",
        }
        for name, value in options.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def run(self) -> None:
        """Serve until a signal ends it."""
        _Arbiter(self).run()

    def load(self) -> flask.Flask:
        """Start the extender in the worker process and return what it answers with."""
        self.service = self._compose(self.settings)
        self.service.start()
        self.calls = SchedulerApi(self.service)
        settings = self.settings
        return create_app(
            self.service,
            request_limit_bytes=settings.request_limit_bytes,
            client_name=settings.tls.client_name if settings.tls else "",
            hosts=settings.hosts,
        )

    def refused(self, cause: str) -> None:
        """Count a connection that the worker closed before it became a request."""
        if self.service is not None:
            self.service.metrics.refuse(cause)

    def tick(self) -> None:
        """Tell systemd how we are; called by the worker's loop every second.

        A watchdog's ping means that a decision could be made: the loop turns, and the view's lock
        is not held for ever. It may be held just now; there are many ticks before systemd acts.
        """
        service, now = self.service, time.monotonic()
        if service is None:
            return
        status = service.unready or "ready"
        if status != self._status:
            self._status = status
            self._notifier.status(status)
            # What is known by now stays: looking through a million objects for garbage would
            # stop every answer for a tenth of a second, and find nothing.
            gc.freeze()
        if self._ping_seconds and now >= self._next_ping and service.view.lock.acquire(False):
            service.view.lock.release()
            self._next_ping = now + self._ping_seconds
            self._notifier.watchdog()

    def _ready(self, _worker: object) -> None:
        """Tell systemd that we answer, not that the cluster is known: `/readyz` says that."""
        self._notifier.ready("answering")

    def _worker_exit(self, _arbiter: object, _worker: object) -> None:
        self._notifier.stopping()
        if self.service is not None:
            self.service.stop()


class _Arbiter(gunicorn.arbiter.Arbiter):  # type: ignore[misc]  # gunicorn has no types
    """Keeps one worker: at each of these signals gunicorn starts another one beside it.

    Two that answer on one port, each with what it has assumed itself, would give cards twice.
    """

    def handle_hup(self) -> None:
        """Go on; the new worker would know nothing of the cluster, and read no new settings."""
        self._ignore("SIGHUP")

    def handle_ttin(self) -> None:
        """Go on with one worker."""
        self._ignore("SIGTTIN")

    def handle_usr2(self) -> None:
        """Go on; the new process would outlive this one."""
        self._ignore("SIGUSR2")

    @staticmethod
    def _ignore(name: str) -> None:
        logger.warning(
            "%s is ignored; certificates are read again by themselves, and for other settings "
            "restart gpustack-extender",
            name,
        )


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
