"""The words of each violation: in the log, as an Event, a number, and while it stands.

A warning in the log and an Event on the pod say it once; the node's annotation says it as long as
it stands.
"""

import logging
from collections.abc import Callable
from typing import Final

from gpustack.adapters.kube import ObjectEvent
from gpustack.agent.activity.shares import Share
from gpustack.agent.identification.process_owners import Owner
from gpustack.agent.violations.reactions import (
    ABOVE,
    DAMAGED,
    EXCEEDED,
    FOREIGN,
    OLD_PAGE,
    UNCOUNTED,
    UNHOOKED,
    Reactions,
)
from gpustack.agent.violations.standing import StandingViolations

logger = logging.getLogger(__name__)

_REASONS: Final = (UNHOOKED, FOREIGN, DAMAGED, ABOVE, UNCOUNTED, EXCEEDED, OLD_PAGE)


class ViolationReports:
    """Reports each violation of a container once, and lets the agent act while it stands.

    Args:
        tell: takes the Event.
        reactions: act.
        standing: shows what stands.
    """

    def __init__(
        self,
        tell: Callable[[ObjectEvent], None],
        reactions: Reactions,
        standing: StandingViolations,
    ) -> None:
        self.tell = tell
        self.reactions = reactions
        self.standing = standing
        self._said: set[tuple[Owner, str]] = set()
        self.containers: dict[str, float] = dict.fromkeys(_REASONS, 0.0)  # read by other threads

    def ledger_is_damaged(self, share: Share, why: str) -> None:
        """Report an unreadable ledger: its container overwrote or truncated it."""
        self._report_damage(
            share,
            "content",
            f"its ledger can't be read ({why}): all memory that the driver sees counts against its"
            " share",
            acts=True,
        )

    def sum_is_false(self, share: Share) -> None:
        """Report a ledger whose sum isn't that of its processes: its container wrote over it."""
        self._report_damage(
            share,
            "sum",
            "its sum isn't that of its processes: what either hides counts against its share",
            acts=True,
        )

    def form_was_changed(self, share: Share, what: str, how: str) -> None:
        """Report a changed property of a container's file, as `ledger's mode`."""
        kind = "content" if what.endswith("size") else what  # bytes that are cut off are lost
        self._report_damage(share, kind, f"its {what} was {how}")

    def form_is_kept(self, share: Share) -> None:
        """Report a container that keeps its ledger's form from being restored."""
        self._report_damage(
            share,
            "form kept",
            "mode and size of its ledger can't be restored: a process in it writes to it for long,"
            " or the disk hangs",
        )

    def memory_is_above(self, share: Share, uuid: str, above_bytes: int) -> None:
        """Report a container that holds more of a card than its share, and what modules need."""
        self.report(
            share,
            ABOVE,
            f"it holds {above_bytes >> 20} MiB of card {uuid} above its share of"
            f" {share.memory_bytes >> 20} MiB: modules with large variables, or memory taken past"
            " the hook; no further request is granted meanwhile",
        )

    def processes_are_uncounted(self, share: Share, uuid: str, count: int) -> None:
        """Report processes on a card that have no place in their container's ledger."""
        told = {(share.owner, UNHOOKED), (share.owner, FOREIGN)} & self._said
        if not told:
            self.report(
                share,
                UNCOUNTED,
                f"{count} of its processes on card {uuid} hold no place in its ledger: something"
                " answers for the kernel (seccomp), or they go past the hook; all of their memory"
                " counts against the share",
            )

    def time_is_exceeded(self, share: Share, *, is_good: bool, collected: bool) -> None:
        """Report a container that has used more of a card's time than its share allows.

        Args:
            share: the container.
            is_good: whether the driver is known to count what each process used.
            collected: whether its launches wait for that.
        """
        done = "its launches wait" if collected else "nothing is held back by this count"
        self.report(
            share,
            EXCEEDED,
            f"the driver counts 3 s of GPU time beyond its share and 3 points: {done}",
            acts=is_good,
        )

    def page_is_old(self, share: Share, count: int) -> None:
        """Report processes that launch by a page that the agent has replaced."""
        self.report(
            share,
            OLD_PAGE,
            f"{count} of its processes launch by an activity page that was replaced: they aren't"
            " told when a burst ends or a debt is due. The hook was gone round, or their page was"
            " lost with a fault of the disk: restart the container",
            acts=False,
        )

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        self._said = {said for said in self._said if said[0] in living}
        self.reactions.forget(living)
        self.standing.begin_look(living)

    def report(self, share: Share, reason: str, what: str, *, acts: bool = True) -> None:
        """Report a violation that stands, and let the agent act on it.

        Args:
            share: the container.
            reason: the Event's.
            what: the message, without the container's name.
            acts: whether it is surely the container's own doing.
        """
        message = f"container {share.owner[1]}: {what}"
        self.standing.found(share.owner, reason)
        if self.is_news(share, reason):
            self._write(share, reason, message)
        if acts:
            self.reactions.stands(share, reason, message)

    def is_news(self, share: Share, what: str) -> bool:
        """Count a container at its first violation of a kind; says whether this is it."""
        known = (share.owner, what) in self._said
        if not known and what in self.containers:
            self.containers[what] += 1
        self._said.add((share.owner, what))
        return not known

    def _report_damage(self, share: Share, what: str, why: str, *, acts: bool = False) -> None:
        """Report damage of one kind once, and count its container once."""
        message = f"container {share.owner[1]}: {why}"
        self.standing.found(share.owner, DAMAGED)
        self.is_news(share, DAMAGED)
        if self.is_news(share, f"{DAMAGED}: {what}"):
            self._write(share, DAMAGED, message)
        if acts:
            self.reactions.stands(share, DAMAGED, message)

    def _write(self, share: Share, reason: str, message: str) -> None:
        logger.warning("%s pod=%s/%s: %s", reason, share.namespace, share.pod, message)
        self.tell(
            ObjectEvent(
                namespace=share.namespace,
                name=share.pod,
                uid=share.owner[0],
                reason=reason,
                message=message,
                warning=True,
                topic=f"{reason}/{share.owner[1]}",
            )
        )
