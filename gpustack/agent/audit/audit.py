"""The audit: every 30 seconds, does everything still say the same of each container with a card?

A container that starts or ends differs for a moment, so a difference counts once it stands at two
looks. It is a metric with its reason and a line of the log, and it is mended where that is safe.
"""

import collections
import logging
import threading
from collections.abc import Mapping
from typing import Final

from gpustack.agent.audit.differences import Difference, DifferenceReason
from gpustack.agent.audit.mends import Mends
from gpustack.agent.audit.views import CardViews
from gpustack.agent.node.inventory import CardInventory

logger = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 30.0


class Audit:
    """Compares the views, again and again.

    Attributes:
        looks: how many looks found all views.
    """

    def __init__(self, *, inventory: CardInventory, views: CardViews, mends: Mends) -> None:
        self._inventory = inventory
        self._views = views
        self._mends = mends
        self.looks = 0
        self._seen: frozenset[Difference] = frozenset()  # at the last look
        self._standing: frozenset[Difference] = frozenset()  # at the last two
        self._mended = dict.fromkeys(DifferenceReason, 0)

    @property
    def standing(self) -> Mapping[str, float]:
        """By reason, how many differences stood at the last two looks and couldn't be mended."""
        found = collections.Counter(each.reason for each in self._standing)
        return {reason.value: float(found[reason]) for reason in DifferenceReason}

    @property
    def mended(self) -> Mapping[str, float]:
        """By reason, how many differences were put right."""
        return {reason.value: float(count) for reason, count in self._mended.items()}

    def run(self, stop: threading.Event) -> None:
        """Look until `stop` is set."""
        while not stop.wait(PERIOD_SECONDS):
            self.look()

    def look(self) -> None:
        """Compare once, and mend what differed at the last look, too."""
        found = self._views.differences(self._inventory.node)
        if found is None:
            return
        self.looks += 1
        seen = frozenset(filter(self._mends.is_due, found))
        standing = seen & self._seen
        for each in sorted(standing - self._standing, key=str):
            logger.warning("views differ: %s", _text(each))
        mended = {each for each in standing if self._mends.mend(each)}
        for each in mended:
            self._mended[each.reason] += 1
            logger.info("mended: %s", _text(each))
        self._seen, self._standing = seen, standing - mended


def _text(difference: Difference) -> str:
    return (
        f"reason={difference.reason.value} pod_uid={difference.pod_uid}"
        f" container={difference.container}"
    )
