"""An HTTP server: a table of paths for each listener, each with a function that makes the answer.

It is part of daemons that decide, and that run as root. Every user of the host reaches it, and
other machines may (`listener.py`). One loop serves all listeners, and each page has one thread.
"""

import asyncio
import threading
from collections.abc import Mapping
from typing import Final

from gpustack.adapters.web.listener import Listener
from gpustack.adapters.web.page_threads import Page, PageThreads

_LOOK_SECONDS: Final = 0.5  # how soon a stop is noticed


class WebServer:
    """Serves a fixed set of paths at each listener."""

    def __init__(self, pages: Mapping[Listener, Mapping[str, Page]]) -> None:
        self._pages = pages
        self._threads = PageThreads(page for table in pages.values() for page in table.values())

    @property
    def ports(self) -> list[int]:
        """The port of each listener, in their order."""
        return [listener.port for listener in self._pages]

    @property
    def problem(self) -> str:
        """Why a listener doesn't listen yet; empty while all do."""
        return "; ".join(listener.problem for listener in self._pages if listener.problem)

    @property
    def dropped(self) -> int:
        """How many connections were closed before they had their answer."""
        return sum(listener.dropped for listener in self._pages)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        try:
            asyncio.run(self._serve(stop))
        finally:
            self.close()

    def close(self) -> None:
        """Give the addresses and the threads back."""
        for listener in self._pages:
            listener.close()
        self._threads.end()

    async def _serve(self, stop: threading.Event) -> None:
        serving = {
            asyncio.create_task(listener.serve(table, self._threads))
            for listener, table in self._pages.items()
        }
        while not stop.is_set():
            ended, _ = await asyncio.wait(
                serving, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for each in ended:
                each.result()  # it ends by a defect only, and the caller reports that
