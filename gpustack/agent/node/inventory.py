"""The host's cards and their health, as all parts of the agent see them.

Cards are read at start, and again when the library was opened again or has found a card anew: after
a change of the driver, or when a card was taken off the bus and found again, it may have another
minor. Else only health changes, as `gpustack.agent.health` judges it. A card that didn't answer
when the cards were read is left out until they are read again.
"""

import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping

from gpustack.adapters.nvml import CardFault, Ends, Inventory, Nvml, NvmlError
from gpustack.agent.health.card_state import CardState, State
from gpustack.agent.health.card_states import CardStates
from gpustack.model.node import Card, Node, arrange
from gpustack.model.topology.link_level import FARTHEST_TOKEN, Links

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

    Attributes:
        left_out: names each card that didn't answer when the cards were read, and says why.

    Raises:
        NvmlError: the cards can't be read, or there are none.
    """

    def __init__(
        self, *, nvml: Nvml, node_name: str, poll_seconds: float, states: CardStates
    ) -> None:
        self._nvml = nvml
        self.poll_seconds = poll_seconds
        self.states = states
        self._looking = threading.Lock()  # guards what follows: two threads look at the cards
        self._opened = nvml.opened
        self._changed = threading.Condition()  # guards what follows
        self._generation = 0
        found = nvml.inventory()
        if not found.cards:
            raise NvmlError("the driver answers, but no card does")
        self.left_out = found.left_out
        self._node = _node(node_name, found)
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
        """Poll the cards' health, again and again."""
        while not stop.wait(self.poll_seconds):
            self.look()

    def look(self) -> None:
        """Ask each card how it is; where one may have another minor, read the cards first."""
        with self._looking:
            faults = self._nvml.faults()
            if self._nvml.opened != self._opened:
                if not self._read_again():
                    return
                faults = self._nvml.faults()
            self.observe(faults)

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
                self.look()

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
        if (healthy, state.reason, state.since) == (card.healthy, card.reason, card.since):
            return card
        return dataclasses.replace(card, healthy=healthy, reason=state.reason, since=state.since)

    def _read_again(self) -> bool:
        """Take up cards and driver as they are now; return whether they could be read."""
        opened = self._nvml.opened
        try:
            found = self._nvml.inventory()
        except NvmlError as error:
            logger.warning("the cards are not read again, the next look tries: %s", error)
            return False
        with self._changed:
            before = self._node
            node = _node(before.name, found)
            cards = tuple(self._shown(card) for card in node.cards)
            self._node = _with_missing(dataclasses.replace(node, cards=cards), before)
            self._generation += 1
            self._changed.notify_all()
        self.left_out, self._opened = found.left_out, opened
        minors = ", ".join(f"{card.minor} ({card.uuid})" for card in self._node.cards)
        logger.warning("the cards were read again: driver %s, cards %s", found.driver, minors)
        return True


def _node(name: str, found: Inventory) -> Node:
    return Node(
        name=name,
        cards=found.cards,
        links=found.links,
        paths=found.paths,
        driver=found.driver,
        cuda=found.cuda,
    )


def _with_missing(node: Node, before: Node) -> Node:
    """Return the node with the cards of before that it lacks; each keeps its place and its links.

    One whose minor is another card's now has no place any more: nothing reaches it.
    """
    minors = {card.minor for card in node.cards}
    uuids = {card.uuid for card in node.cards}
    missing = [each for each in before.cards if each.uuid not in uuids and each.minor not in minors]
    if not missing:
        return node
    cards = (*node.cards, *missing)
    tokens = [
        {**_by_pair(before, old), **_by_pair(node, new)}
        for old, new in ((before.links, node.links), (before.paths, node.paths))
    ]
    links, paths = (_matrix(cards, each) for each in tokens)
    arranged, links = arrange(cards, links)
    _, paths = arrange(cards, paths)
    return dataclasses.replace(node, cards=arranged, links=links, paths=paths, uses=())


def _by_pair(node: Node, links: Links) -> dict[tuple[str, str], str]:
    return {
        (one.uuid, two.uuid): token
        for one, row in zip(node.cards, links, strict=False)  # links may be unknown
        for two, token in zip(node.cards, row, strict=True)
    }


def _matrix(cards: tuple[Card, ...], tokens: Mapping[tuple[str, str], str]) -> Links:
    if not tokens:
        return ()
    return tuple(
        tuple(tokens.get((one.uuid, two.uuid), FARTHEST_TOKEN) for two in cards) for one in cards
    )
