"""What the API server has said about tokens, kept for a short time in bounded memory.

Any client may invent tokens, and each costs the API server a question. So one thread asks about
tokens that are new, one at a time, and another about tokens that were accepted before: a reader
whose verdict has ended waits behind no invented token. Refused tokens displace no accepted ones.
"""

import asyncio
import collections
import concurrent.futures
import functools
import hashlib
import http
import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from gpustack.adapters.web.rate_limited_log import RateLimitedLog
from gpustack.model.errors import GpustackError

logger = logging.getLogger(__name__)

_Value = TypeVar("_Value")

Judge = Callable[[str], http.HTTPStatus]
"""Asks who shows a token: 200 for a reader, 401 for nobody known, 403 for one without the right.

It raises a GpustackError where the API server doesn't say.
"""

ACCEPTED_SECONDS: Final = 60.0
"""How long a token reads on after its right has ended: four scrapes of Prometheus's default."""

_REFUSED_SECONDS: Final = 10.0  # a right that is given counts soon
_MOST: Final = 256  # tokens of each kind; a site has a few readers
_MOST_WAITING: Final = 64  # questions of each thread: twice the connections of a listener
_ANSWER_SECONDS: Final = 10.0  # Prometheus waits no longer by default


class _Lane:
    """One thread that asks, and how many questions it has."""

    def __init__(self, name: str) -> None:
        self.thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name)
        self.waiting = 0


class TokenVerdicts:
    """Judges tokens for the clients of one loop."""

    def __init__(self, judge: Judge, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._judge, self._clock = judge, clock
        self._known, self._new = _Lane("token-known"), _Lane("token-new")
        # By the tokens' SHA-256: a token itself is kept only while it is asked about.
        self._accepted: collections.OrderedDict[bytes, float] = collections.OrderedDict()
        self._refused: collections.OrderedDict[bytes, tuple[float, http.HTTPStatus]] = (
            collections.OrderedDict()
        )
        self._asking: dict[bytes, asyncio.Future[http.HTTPStatus]] = {}
        self._seldom = RateLimitedLog()

    async def verdict(self, token: str) -> http.HTTPStatus:
        """Return 200, 401 or 403; 503 where the API server hasn't said it in time."""
        key = hashlib.sha256(token.encode()).digest()
        kept = self._kept(key)
        if kept is not None:
            return kept
        asking = self._asking.get(key) or self._ask(key, token)
        if asking is None:
            return http.HTTPStatus.SERVICE_UNAVAILABLE
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.shield(asking)
        except TimeoutError:
            return http.HTTPStatus.SERVICE_UNAVAILABLE

    def end(self) -> None:
        """End the threads as soon as their questions are answered."""
        for lane in (self._known, self._new):
            lane.thread.shutdown(wait=False, cancel_futures=True)

    def _kept(self, key: bytes) -> http.HTTPStatus | None:
        now = self._clock()
        if now < self._accepted.get(key, now):
            self._accepted.move_to_end(key)
            return http.HTTPStatus.OK
        until, status = self._refused.get(key, (now, http.HTTPStatus.UNAUTHORIZED))
        return status if now < until else None

    def _ask(self, key: bytes, token: str) -> asyncio.Future[http.HTTPStatus] | None:
        lane = self._known if key in self._accepted else self._new
        if lane.waiting >= _MOST_WAITING:
            return None
        lane.waiting += 1
        loop = asyncio.get_running_loop()
        asking = loop.run_in_executor(lane.thread, self._judged, token)
        self._asking[key] = asking
        asking.add_done_callback(functools.partial(self._settle, key, self._clock(), lane))
        return asking

    def _judged(self, token: str) -> http.HTTPStatus:
        try:
            return self._judge(token)
        except GpustackError as error:
            if self._seldom.may_say(str(error)):
                logger.warning("a token can't be judged, and reads nothing: %s", error)
        except Exception:
            # The boundary of a thread: its client gets a status, and the log the defect.
            logger.exception("a token can't be judged, and reads nothing")
        return http.HTTPStatus.SERVICE_UNAVAILABLE

    def _settle(
        self, key: bytes, asked: float, lane: _Lane, asking: asyncio.Future[http.HTTPStatus]
    ) -> None:
        lane.waiting -= 1
        del self._asking[key]
        if asking.cancelled():
            return
        status = asking.result()
        if status is http.HTTPStatus.OK:
            self._refused.pop(key, None)
            _keep(self._accepted, key, asked + ACCEPTED_SECONDS)
        elif status is not http.HTTPStatus.SERVICE_UNAVAILABLE:
            self._accepted.pop(key, None)
            _keep(self._refused, key, (asked + _REFUSED_SECONDS, status))


def _keep(kept: "collections.OrderedDict[bytes, _Value]", key: bytes, value: _Value) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _MOST:
        kept.popitem(last=False)
