"""Gunicorn around the application: one worker process, because decisions need one memory."""

import logging
from typing import Any, Final

import flask
import gunicorn.app.base

from extender.app import create_app
from extender.service import Extender
from extender.settings import Settings

logger = logging.getLogger(__name__)

_STOP_SECONDS: Final = 10  # what began is finished: more than any decision takes
# Go's client keeps idle connections for 90 s; closing earlier costs it a failed call now and then.
_KEEP_ALIVE_SECONDS: Final = 120
_BACKLOG: Final = 128


class Server(gunicorn.app.base.BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Serves one extender until a signal ends it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._service: Extender | None = None
        super().__init__()

    def load_config(self) -> None:
        """Configure gunicorn; nothing is read from its own files or environment."""
        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        options: dict[str, Any] = {
            "bind": [f"{host}:{settings.port}"],
            "workers": 1,
            "worker_class": "gthread",
            "threads": settings.threads,
            "backlog": _BACKLOG,
            "keepalive": _KEEP_ALIVE_SECONDS,
            "graceful_timeout": _STOP_SECONDS,
            "proc_name": "gpustack-extender",
            "loglevel": settings.log_level.lower(),
            "worker_exit": self._worker_exit,
            "control_socket_disable": True,  # a root-only socket in the home folder otherwise
        }
        for name, value in options.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> flask.Flask:
        """Start the extender in the worker process and return what it answers with."""
        self._service = Extender(self._settings)
        self._service.start()
        return create_app(self._service, request_limit_bytes=self._settings.request_limit_bytes)

    def _worker_exit(self, _arbiter: object, _worker: object) -> None:
        if self._service is not None:
            self._service.stop()
