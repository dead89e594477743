"""What the agent does about violations, besides saying them.

Whatever it does falls on one container. So it acts on nothing that another container can bring
about: memory and time that can't be told to be a container's, and counts of the driver that aren't
known to be good, are reported only.
"""

import dataclasses
import enum
import logging
import time
from collections.abc import Callable
from typing import Final

from gpustack.agent.activity.shares import Share
from gpustack.agent.identification.process_owners import Owner

logger = logging.getLogger(__name__)

# Looks come once a second; samples, three of ten, may be missed for longer by a silent card.
_AFTER_SECONDS: Final = 60.0
# A pod that lives so much longer is deleted again: the request may have been given up.
_AGAIN_SECONDS: Final = 60.0

UNHOOKED: Final = "UnhookedProcess"
FOREIGN: Final = "ForeignLimits"
DAMAGED: Final = "LedgerDamaged"
ABOVE: Final = "MemoryAboveShare"
UNCOUNTED: Final = "UncountedProcess"
EXCEEDED: Final = "ShareExceeded"
OLD_PAGE: Final = "OldPage"


class OnViolation(enum.Enum):
    """The setting `on_violation`."""

    REPORT = "report"
    THROTTLE = "throttle"
    KILL = "kill"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One row of the table of findings.

    Attributes:
        found: what the agent finds.
        reason: of the Event.
        acts: when it acts; empty: never.
        why: whose doing it is, so that no honest tenant is harmed.
    """

    found: str
    reason: str
    acts: str
    why: str


FINDINGS: Final = (
    Finding(
        found="a process on the card that doesn't map the hook",
        reason=UNHOOKED,
        acts="at the second look at the same process",
        why="the driver has then shown the PID while this process had it; a PID that it has shown"
        " for another container is nobody's",
    ),
    Finding(
        found="a process on the card that maps other limits, activity page or ledger than its own",
        reason=FOREIGN,
        acts="at the second look at the same process",
        why="as before",
    ),
    Finding(
        found="more of the container's processes on the card than hold a place in its ledger",
        reason=UNCOUNTED,
        acts="at three of the last ten looks",
        why="only the container has its ledger and its processes",
    ),
    Finding(
        found="more memory than its share and what modules commonly need",
        reason=ABOVE,
        acts="at three of the last ten looks",
        why="the driver tells it by process; memory that it shows for none is UnexplainedUse",
    ),
    Finding(
        found="a ledger that can't be read, or whose sum isn't that of its processes",
        reason=DAMAGED,
        acts="at each look that finds it",
        why="only the container has its ledger",
    ),
    Finding(
        found="a ledger with another mode or size, which the agent restores, or another owner",
        reason=DAMAGED,
        acts="",
        why="it is put right, and an image may do it by mistake (chown -R)",
    ),
    Finding(
        found="3 s of GPU time beyond its share and 3 points",
        reason=EXCEEDED,
        acts="where `collect_gpu_time` is true",
        why="some drivers give a neighbour's time to the process that they find on the card",
    ),
    Finding(
        found="a process that launches by an activity page that was replaced a second before or"
        " earlier, at two looks",
        reason=OLD_PAGE,
        acts="",
        why="a process may keep a page that the disk has lost, and that the agent makes anew",
    ),
    Finding(
        found="memory of a card that the driver shows for no process, or for a PID that another"
        " process has had, and 3 s of GPU time for such a PID",
        reason="UnexplainedUse",
        acts="",
        why="nobody can tell whose it is: an Event on the node",
    ),
    Finding(
        found="a process on a card, of a container that no record gives any of it, or whose cgroup"
        " the kernel doesn't tell",
        reason="UnexplainedUse",
        acts="",
        why="another container has handed it the card, and no limits are its own; of a cgroup whose"
        " path is too long, or a process whose first threads have ended, the kernel doesn't tell"
        " whose it is: an Event on the node",
    ),
)
"""What the agent finds, in the order of the page."""


class Reactions:
    """Acts on the containers whose violations stand.

    Args:
        wanted: the setting.
        kill: deletes a container's pod, for a reason and in words; says whether it could.
        now: monotonic seconds.
    """

    def __init__(
        self,
        wanted: OnViolation = OnViolation.THROTTLE,
        *,
        kill: Callable[[Share, str, str], bool] = lambda *_: False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wanted = wanted
        self._kill = kill
        self._now = now
        self._until: dict[Owner, float] = {}
        self._killed: dict[Owner, float] = {}  # and when again

    @property
    def wait(self) -> bool:
        """Whether launches wait for the agent's account of GPU time."""
        return self.wanted is not OnViolation.REPORT

    def stands(self, share: Share, reason: str, message: str) -> None:
        """Act on a container whose violation stands at this look."""
        if self.wanted is OnViolation.REPORT:
            return
        began, now = not self.holds(share.owner), self._now()
        self._until[share.owner] = now + _AFTER_SECONDS
        killed = self._killed.get(share.owner, now) > now
        if self.wanted is OnViolation.KILL and not killed:
            killed = self._kill(share, reason, message)
            self._killed |= {share.owner: now + _AGAIN_SECONDS} if killed else {}
        if began:
            done = "its pod is deleted" if killed else "it is held to its guarantee"
            logger.warning("%s share=%s: %s", reason, share.full_name, done)

    def holds(self, owner: Owner) -> bool:
        """Say whether a container is held to its guarantee now, for a minute at least."""
        return self._until.get(owner, float("-inf")) > self._now()

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        self._until = {owner: each for owner, each in self._until.items() if owner in living}
        self._killed = {owner: each for owner, each in self._killed.items() if owner in living}
