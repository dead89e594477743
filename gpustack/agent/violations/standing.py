"""The violations that stand now, for the node's annotation: what its page and its users see."""

import datetime
import heapq
import time
from collections.abc import Callable
from typing import Final

from gpustack.agent.identification.process_owners import Owner
from gpustack.wire.violations import MOST, ShareViolation

# One that comes and goes stands all the while: it costs the API server no write each time. What
# is found once and put right, as a file's mode, is shown for so long.
_KEPT_SECONDS: Final = 600.0


class StandingViolations:
    """Keeps what was found in the last ten minutes, since it was found first.

    One thread finds and forgets; others may read `listed`.

    Args:
        api_uid: returns the UID that the API server has for a pod of the kubelet's.
        now: monotonic seconds.
        clock: Unix seconds.

    Attributes:
        listed: what stood at the last look, the newest first, and of very many the newest.
    """

    def __init__(
        self,
        api_uid: Callable[[str], str] = str,
        *,
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api_uid = api_uid
        self._now = now
        self._clock = clock
        self._since: dict[tuple[Owner, str], str] = {}
        self._last: dict[tuple[Owner, str], float] = {}
        self._changed = False
        self.listed: tuple[ShareViolation, ...] = ()

    def found(self, owner: Owner, reason: str) -> None:
        """Take note of a container's violation, which stands at this look."""
        key = owner, reason
        if key not in self._since:
            moment = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
            self._since[key] = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
            self._changed = True
        self._last[key] = self._now()

    def begin_look(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone, and what wasn't found for long; show what is left."""
        before = self._now() - _KEPT_SECONDS
        for key, last in list(self._last.items()):
            if last < before or key[0] not in living:
                del self._since[key], self._last[key]
                self._changed = True
        if self._changed:
            newest = heapq.nlargest(MOST, self._since.items(), key=lambda each: (each[1], each[0]))
            self.listed = tuple(
                ShareViolation(uid=self._api_uid(uid), container=name, reason=reason, since=since)
                for ((uid, name), reason), since in newest
            )
            self._changed = False
