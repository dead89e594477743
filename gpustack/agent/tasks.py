"""The agent's threads: all end with one stop event, and none ends alone."""

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

_JOIN_SECONDS = 10.0  # of all together: longer than any single call of a thread


class Tasks:
    """Runs functions in threads until told to stop; one that fails stops all.

    A thread that died silently would leave an agent that looks alive and does half its work;
    systemd restarts the whole agent.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.failed = False
        self._threads: list[threading.Thread] = []

    def start(self, name: str, function: Callable[[threading.Event], None]) -> None:
        """Run `function` in a thread of its own."""
        thread = threading.Thread(target=self._run, args=(name, function), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        """Wait for all threads, after `stop` was set, for a bounded time."""
        until = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                logger.warning("thread does not end name=%s", thread.name)

    def _run(self, name: str, function: Callable[[threading.Event], None]) -> None:
        try:
            function(self.stop)
        except Exception:
            # The boundary of a thread: after any error the whole process stops.
            logger.exception("thread failed name=%s", name)
            self.failed = True
            self.stop.set()
