"""Metrics for readers on other machines, in a thread beside the scheduler's calls."""

import logging
import threading
from typing import Final

from extender.observability.metrics import Metrics
from gpustack.adapters.web import remote_metrics
from gpustack.adapters.web.exchange import Response
from gpustack.adapters.web.listener import Listener
from gpustack.adapters.web.server import WebServer

logger = logging.getLogger(__name__)

_STOP_SECONDS: Final = 5.0


class RemoteReaders:
    """Answers them from its construction to `stop`."""

    def __init__(self, listener: Listener, metrics: Metrics) -> None:
        def page(accept: str) -> Response:
            text, content_type = metrics.render(accept)
            return Response(content_type=content_type, body=text)

        self._server = WebServer({listener: {remote_metrics.PATH: page}})
        metrics.readers_dropped = lambda: self._server.dropped
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="remote-readers", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether they are answered: only a defect ends that."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Answer no more."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        try:
            self._server.run(self._stop)
        except Exception:
            # The boundary of a thread: the watchdog isn't pinged any more, and systemd restarts us.
            logger.exception("readers of metrics are not answered any more")
