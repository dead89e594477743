"""What the HTTP server serves: an extender with its routes, its calls and systemd's watchdog."""

import gc
import sys
import time
from typing import TYPE_CHECKING, Final

from extender.api.app import create_app
from extender.api.scheduler_api import SchedulerApi
from extender.extender_base import ExtenderBase
from extender.http.interface import HttpSettings
from extender.observability.remote_readers import RemoteReaders
from gpustack.adapters.systemd import Notifier
from gpustack.adapters.web.listener import Listener

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Threads that read a watch or write to the API server must not keep the scheduler, which asks one
# question after another, waiting for the interpreter: 5 ms each time by default.
_SWITCH_SECONDS: Final = 0.0005
# Of a list of pods nearly every object stays. Looking for garbage after each 700 of them (Python's
# own measure) takes a tenth of the first sync and finds nothing.
_GARBAGE: Final = (20_000, 5, 20)


class ExtenderApplication:
    """An extender that runs, in the process that answers.

    Attributes:
        service: the extender.
        calls: answers the scheduler.
        routes: answers every other request.
    """

    def __init__(
        self,
        service: ExtenderBase,
        settings: HttpSettings,
        notifier: Notifier,
        *,
        watchdog_seconds: float,
        remote: Listener | None = None,
    ) -> None:
        """Start the extender; systemd expects a ping each ``watchdog_seconds``, or none where 0.

        Metrics are served to ``remote``, too, where it is given.
        """
        self.service = service
        self._notifier = notifier
        self._ping_seconds = watchdog_seconds / 3
        self._next_ping = 0.0
        self._status = ""
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.set_threshold(*_GARBAGE)
        service.start()
        self._remote = None if remote is None else RemoteReaders(remote, service.metrics)
        self.calls = SchedulerApi(service)
        self.routes: WSGIApplication = create_app(
            service,
            request_limit_bytes=settings.request_limit_bytes,
            client_name=settings.tls.client_name if settings.tls else "",
            hosts=settings.hosts,
        )

    def ready(self) -> None:
        """Tell systemd that we answer, not that the cluster is known: `/readyz` says that."""
        self._notifier.ready("answering")

    def tick(self) -> None:
        """Tell systemd how we are; the server calls it every second.

        A watchdog's ping means that a decision could be made, and that remote readers are
        answered: the loop turns, and the view's lock is not held for ever. It may be held just
        now; there are many ticks before systemd acts.
        """
        service, now = self.service, time.monotonic()
        status = service.unready or "ready"
        if status != self._status:
            self._status = status
            self._notifier.status(status)
            # What is known by now stays: looking through a million objects for garbage would
            # stop every answer for a tenth of a second, and find nothing.
            gc.freeze()
        if not self._ping_seconds or now < self._next_ping or not self._answers_readers:
            return
        if service.cache.lock.acquire(False):
            service.cache.lock.release()
            self._next_ping = now + self._ping_seconds
            self._notifier.watchdog()

    @property
    def _answers_readers(self) -> bool:
        return self._remote is None or self._remote.alive

    def refused(self, cause: str) -> None:
        """Count a connection that ended before it became a request."""
        self.service.metrics.refuse(cause)

    def stop(self) -> None:
        """Tell systemd that we end, and stop the extender."""
        self._notifier.stopping()
        if self._remote is not None:
            self._remote.stop()
        self.service.stop()
