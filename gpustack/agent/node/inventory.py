"""The host's cards and their health, as all parts of the agent see them.

Cards are read once, at start: a card doesn't appear or disappear under a running driver. Only
health changes, as `gpustack.agent.health` judges it. A card that didn't answer at start is unknown
until the next start.
"""

import dataclasses
import logging
import threading
from collections.abc import Callable

from gpustack.adapters.nvml import CardFault, Ends, Nvml, NvmlError
from gpustack.agent.health.card_state import CardState, State
from gpustack.agent.health.card_states import CardStates
from gpustack.model.node import Card, Node

logger = logging.getLogger(__name__)

_EVENT_WAIT_MS = 1000  # how long one wait for an XID lasts; a stop is noticed after it
# After a driver without events, or one that has just lost a card: the other cards' XIDs are heard
# again within the 5 s in which new pods avoid a card.
_EVENT_RETRY_SECONDS = 2.0


class CardInventory:
    """Holds the model's node, without uses, and reports its changes.

    Args:
        nvml: the open library.
        node_name: the host's name in Kubernetes.
        poll_seconds: how often every card is asked how it is; may be replaced at any time.
        states: judges what is found.

    Raises:
        NvmlError: the cards can't be read, or there are none.
    """

    def __init__(
        self, *, nvml: Nvml, node_name: str, poll_seconds: float, states: CardStates
    ) -> None:
        self._nvml = nvml
        self.poll_seconds = poll_seconds
        self.states = states
        self._opened = nvml.opened
        self._changed = threading.Condition()  # guards what follows
        self._generation = 0
        found = nvml.inventory()
        if not found.cards:
            raise NvmlError("the driver answers, but no card does")
        self._node = Node(
            name=node_name,
            cards=found.cards,
            links=found.links,
            paths=found.paths,
            driver=found.driver,
            cuda=found.cuda,
        )
        # What an earlier agent knew of a card stands before the first pod is placed.
        self.observe(nvml.faults())

    @property
    def node(self) -> Node:
        """The node with its cards as they are now; nothing is taken of them."""
        with self._changed:
            return self._node

    @property
    def problem(self) -> str:
        """Why the driver can't be asked; empty while it can."""
        return self._nvml.problem

    def wait_for_change(
        self, seen: int, timeout_seconds: float, until: Callable[[], bool] = lambda: False
    ) -> tuple[Node, int]:
        """Return the node and its generation, at once when it isn't `seen`, else when it changes.

        Generations count from 0; after `timeout_seconds`, or once `until` is true at a `wake`, the
        unchanged node is returned.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._generation != seen or until(), timeout_seconds)
            return self._node, self._generation

    def wake(self) -> None:
        """Let those who wait for a change look whether they still do."""
        with self._changed:
            self._changed.notify_all()

    def run(self, stop: threading.Event) -> None:
        """Poll the cards' health, again and again.

        Raises:
            NvmlError: the driver was replaced, and the cards are others than before; the agent
                starts anew.
        """
        while not stop.wait(self.poll_seconds):
            self.observe(self._nvml.faults())
            if self._nvml.opened != self._opened:
                self._opened = self._nvml.opened
                self._read_driver()

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
            if fault is None:
                continue
            self.states.count(fault)
            if fault.ends is not Ends.NEVER_BEGAN:
                self.blame(fault)
                # A card that has fallen off the bus sends an XID: that it was lost is noted now,
                # because its return ends the XID, and may come before the next poll.
                self.observe(self._nvml.faults())

    def blame(self, fault: CardFault) -> None:
        """Take note of an XID of a card."""
        self.states.blame(fault)
        self._publish()

    def observe(self, faults: tuple[CardFault, ...]) -> None:
        """Take note of which cards are at fault now; queries found nothing of the others."""
        self.states.observe([card.uuid for card in self._node.cards], faults)
        self._publish()

    def quarantine(self, uuid: str, text: str) -> CardState:
        """Keep a card out of use until a person releases it."""
        state = self.states.quarantine(uuid, text)
        self._publish()
        return state

    def release(self, uuid: str, text: str) -> CardState:
        """Put a card to use again, as a person says."""
        state = self.states.release(uuid, text)
        self._publish()
        return state

    def _publish(self) -> None:
        """Show the cards as they are judged; several threads may have judged since."""
        with self._changed:
            cards = tuple(self._shown(card) for card in self._node.cards)
            if cards == self._node.cards:
                return
            self._node = dataclasses.replace(self._node, cards=cards)
            self._generation += 1
            self._changed.notify_all()

    def _shown(self, card: Card) -> Card:
        state = self.states.of(card.uuid)
        healthy = state.state is State.HEALTHY
        return dataclasses.replace(card, healthy=healthy, reason=state.reason, since=state.since)

    def _read_driver(self) -> None:
        """Take over the version of a driver that was replaced under the same cards."""
        found = self._nvml.inventory()
        known = {(card.minor, card.uuid, card.memory_bytes) for card in self._node.cards}
        if {(card.minor, card.uuid, card.memory_bytes) for card in found.cards} != known:
            raise NvmlError("the cards are others than before the driver was replaced")
        with self._changed:
            self._node = dataclasses.replace(self._node, driver=found.driver, cuda=found.cuda)
            self._generation += 1
            self._changed.notify_all()
