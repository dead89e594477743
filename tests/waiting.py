"""Threads of a test: one that runs until its end, and an effect of one that is awaited."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

SECONDS: Final = 10.0
"""After this long a test counts as hung."""


@contextlib.contextmanager
def running(run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run in a thread what runs until its event is set, and see it end."""
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that another thread brings about."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
