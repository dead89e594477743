"""The host's cards and their health, as all parts of the agent see them.

Cards are read once, at start: a card doesn't appear or disappear under a running driver. Only
health changes: a card that doesn't answer takes no new work until it does. A card that a critical
XID blames takes none until it has been reset, which shows by its loss and return, or until the
agent starts anew: it may answer all the time, and only an operator knows what else has helped. A
card that didn't answer at start is unknown until the next start.
"""

import dataclasses
import datetime
import logging
import threading
from collections.abc import Callable, Mapping

from gpustack.adapters.nvml import LOST, CardFault, Nvml, NvmlError
from gpustack.model.node import Card, Node

logger = logging.getLogger(__name__)

_EVENT_WAIT_MS = 1000  # how long one wait for an XID lasts; a stop is noticed after it
_EVENT_RETRY_SECONDS = 30.0  # a driver without events, or one that has just lost a card


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class CardInventory:
    """Holds the model's node, without uses, and reports its changes.

    Args:
        nvml: the open library.
        node_name: the host's name in Kubernetes.
        poll_seconds: how often every card is asked whether it is there.
        now: the time as RFC 3339, UTC.

    Raises:
        NvmlError: the cards can't be read, or there are none.
    """

    def __init__(
        self,
        *,
        nvml: Nvml,
        node_name: str,
        poll_seconds: float,
        now: Callable[[], str] = _now,
    ) -> None:
        self._nvml = nvml
        self._poll_seconds = poll_seconds
        self._now = now
        self._changed = threading.Condition()  # guards what follows
        self._xids: dict[str, str] = {}
        self._lost: frozenset[str] = frozenset()  # and not back yet
        self._generation = 0
        found = nvml.inventory()
        if not found.cards:
            raise NvmlError("the driver answers, but no card does")
        start = now()
        self._node = Node(
            name=node_name,
            cards=tuple(dataclasses.replace(card, since=start) for card in found.cards),
            links=found.links,
            paths=found.paths,
            driver=found.driver,
            cuda=found.cuda,
        )

    @property
    def node(self) -> Node:
        """The node with its cards as they are now; nothing is taken of them."""
        with self._changed:
            return self._node

    def wait_for_change(self, seen: int, timeout_seconds: float) -> tuple[Node, int]:
        """Return the node and its generation, at once when it isn't `seen`, else when it changes.

        Generations count from 0; after `timeout_seconds` the unchanged node is returned.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._generation != seen, timeout_seconds)
            return self._node, self._generation

    def run(self, stop: threading.Event) -> None:
        """Poll the cards' health, again and again."""
        while not stop.wait(self._poll_seconds):
            self.observe(self._nvml.faults())

    def run_events(self, stop: threading.Event) -> None:
        """Wait for XIDs; while the driver offers no events, only polling finds faults."""
        told = ""
        while not stop.is_set():
            try:
                fault = self._nvml.next_fault(_EVENT_WAIT_MS)
            except NvmlError as error:
                if str(error) != told:
                    told = str(error)
                    logger.warning("no XID events, health is polled only: %s", error)
                stop.wait(_EVENT_RETRY_SECONDS)
                continue
            if fault is not None:
                with self._changed:
                    self._xids[fault.uuid] = fault.reason
                self.observe(self._nvml.faults())

    def observe(self, faults: tuple[CardFault, ...]) -> None:
        """Take note of which cards are at fault now; all others are healthy."""
        with self._changed:
            found = {fault.uuid: fault.reason for fault in faults}
            self._forgive(found)
            reasons = {**self._xids, **found}
            cards = tuple(self._judged(card, reasons) for card in self._node.cards)
            if cards == self._node.cards:
                return
            self._node = dataclasses.replace(self._node, cards=cards)
            self._generation += 1
            self._changed.notify_all()

    def _forgive(self, found: Mapping[str, str]) -> None:
        """Forget the XIDs of cards that were lost and are back: they count as new."""
        for uuid in self._lost - found.keys():
            self._xids.pop(uuid, None)
        lost = {uuid for uuid, reason in found.items() if reason == LOST}
        self._lost = (self._lost & found.keys()) | lost

    def _judged(self, card: Card, reasons: Mapping[str, str]) -> Card:
        reason = reasons.get(card.uuid, "")
        if card.reason == reason and card.healthy == (not reason):
            return card
        logger.warning("card health changed uuid=%s minor=%d reason=%r", *_name(card), reason)
        return dataclasses.replace(card, healthy=not reason, reason=reason, since=self._now())


def _name(card: Card) -> tuple[str, int]:
    return card.uuid, card.minor
