"""A day of the cluster, a point a minute: what was allocated, busy, waited for, out of service.

It is for people who ask what changed while they were away; nothing is decided by it. Where systemd
gives a folder (StateDirectory=), it is kept there through restarts: what can't be read or written
costs the history and no decision.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from extender.cache.cache import ClusterCache
from gpustack.model.cluster import eligibility
from gpustack.model.node import Node
from gpustack.model.units import CORES_PER_CARD
from gpustack.wire.files import durable_file

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 60
MOST_POINTS: Final = 24 * 60
_MOST_BYTES: Final = 1 << 20  # a day has a third of this
_WRITE_EVERY: Final = 5  # points; as many minutes are lost when the process is killed
_DAY_SECONDS: Final = 24 * 3600


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cluster at a minute.

    Attributes:
        time: Unix seconds.
        nodes: those with cards.
        away: of these, those that are cordoned or not ready.
        cards: all of them.
        unhealthy: of these, those that take no work.
        cores: hundredths of a card that there are.
        cores_used: of these, those that pods hold.
        waiting: pods that ask for GPUs and have none.
        fragmented: part of the free compute that the pods that are asked for can't use, 0 to 1.
        utilised: busy part of the time of the cards whose agents say it, 0 to 1; None: none does.
    """

    time: int
    nodes: int
    away: int
    cards: int
    unhealthy: int
    cores: int
    cores_used: int
    waiting: int
    fragmented: float
    utilised: float | None = None  # older files don't have it


_DECODER: Final = msgspec.json.Decoder(list[Point])


def state_file() -> Path | None:
    """Return where systemd lets the extender keep its history; None where it doesn't."""
    folder = os.environ.get("STATE_DIRECTORY", "")
    return Path(folder, "history.json") if folder else None


class History:
    """The points of the last day.

    Args:
        look: returns the point of a moment (Unix seconds).
        path: where they are kept; None where nowhere.
        now: Unix seconds.
    """

    def __init__(
        self,
        look: Callable[[int], Point],
        *,
        path: Path | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._look = look
        self._path = path
        self._now = now
        self._points = deque(self._read(), MOST_POINTS)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._unwritten = 0
        self._problem = ""

    @property
    def points(self) -> list[Point]:
        """The points, the oldest first."""
        return list(self._points)

    def add(self) -> None:
        """Add the point of now, and write all each few minutes."""
        self._points.append(self._look(int(self._now())))
        self._unwritten += 1
        if self._unwritten >= _WRITE_EVERY:
            self.write()

    def start(self) -> None:
        """Begin to add points."""
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, and write the points down; safe to call when nothing was started."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self.write()

    def write(self) -> None:
        """Write the points down; a failure is logged once."""
        if self._path is None:
            return
        self._unwritten = 0
        problem = ""
        try:
            durable_file.replace(self._path, msgspec.json.encode(self.points))
        except OSError as error:
            problem = durable_file.explained(error)
        if problem and problem != self._problem:
            logger.warning("the history is not kept: %s", problem)
        self._problem = problem

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self.add()

    def _read(self) -> Iterable[Point]:
        if self._path is None or not self._path.exists():
            return ()
        now = self._now()
        try:
            with self._path.open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
            found = _DECODER.decode(text) if len(text) <= _MOST_BYTES else []
        except (OSError, msgspec.MsgspecError) as error:
            logger.warning("the history begins anew: %s: %s", self._path, error)
            return ()
        kept = (point for point in found if now - _DAY_SECONDS < point.time <= now)
        return sorted(kept, key=lambda point: point.time)


def observer(
    cache: ClusterCache,
    fragmented: Callable[[], float],
    utilised: Callable[[Iterable[Node]], float | None],
) -> Callable[[int], Point]:
    """Return what looks at the cluster for a point."""

    def look(seconds: int) -> Point:
        nodes = cache.card_nodes
        cards = [card for node in nodes for card in node.cards]
        busy = utilised(nodes)
        return Point(
            time=seconds,
            nodes=len(nodes),
            away=sum(eligibility.out_of_service(cache.host(node.name)) for node in nodes),
            cards=len(cards),
            unhealthy=sum(not card.healthy for card in cards),
            cores=len(cards) * CORES_PER_CARD,
            cores_used=sum(use.cores for node in nodes for use in node.uses),
            waiting=len(cache.waiting),
            fragmented=round(fragmented(), 4),
            utilised=None if busy is None else round(busy, 4),
        )

    return look
