"""Pages are made in threads: one for each page, once for all clients that ask for it meanwhile."""

import asyncio
import concurrent.futures
import http
import logging
from collections.abc import Callable, Iterable

from gpustack.adapters.web import exposition
from gpustack.adapters.web.exchange import Response, refused

logger = logging.getLogger(__name__)

Page = Callable[[str], Response]  # from the request's `Accept` to the response


class PageThreads:
    """Makes pages for the clients of one loop."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._threads = {
            page: concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="http-page")
            for page in pages
        }
        self._making: dict[tuple[Page, str], asyncio.Future[Response]] = {}

    async def make(self, page: Page, accept: str, *, seconds: float) -> Response:
        """Have the page made in its thread, or share the one that is being made already."""
        # Clients can invent any number of forms; their thread would never end with all of them.
        accept = exposition.form(accept)
        key = page, accept
        making = self._making.get(key)
        if making is None:
            loop = asyncio.get_running_loop()
            making = loop.run_in_executor(self._threads[page], _make, page, accept)
            self._making[key] = making
            making.add_done_callback(lambda _: self._making.pop(key))
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(making)
        except TimeoutError:
            text = f"not made within {seconds:g} s"
            return refused(http.HTTPStatus.SERVICE_UNAVAILABLE, text)

    def end(self) -> None:
        """End the threads as soon as their pages are made."""
        for pool in self._threads.values():
            pool.shutdown(wait=False, cancel_futures=True)


def _make(page: Page, accept: str) -> Response:
    try:
        return page(accept)
    except Exception:
        # Every request gets a status, also when its page fails; the process goes on.
        logger.exception("page failed")
        return refused(http.HTTPStatus.INTERNAL_SERVER_ERROR, "failed; see the log")
