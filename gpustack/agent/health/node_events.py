"""A card's changes in the log, and as Events on the node (`kubectl describe node`)."""

import logging
from collections.abc import Callable

from gpustack.adapters.kube import ObjectEvent
from gpustack.agent.health.card_state import CardState, State

logger = logging.getLogger(__name__)

UNEXPLAINED = "UnexplainedUse"
_REASONS = {
    State.HEALTHY: "CardHealthy",
    State.UNHEALTHY: "CardUnhealthy",
    State.QUARANTINED: "CardQuarantined",
    State.PROBED: "CardProbed",
}


class NodeEvents:
    """Tells the changes of the cards of one node.

    Args:
        record: writes an Event.
    """

    def __init__(self, node_name: str, record: Callable[[ObjectEvent], None]) -> None:
        self._node_name = node_name
        self._record = record

    def tell(self, before: CardState, after: CardState) -> None:
        """Tell one change; an Event of the same kind about a card is written once a minute."""
        was, state = before.state.value, after.state.value
        text = after.text or after.history[-1].text
        said = "card %s uuid=%s was=%s reason=%s: %s"
        logger.warning(said, state, after.uuid, was, after.reason or before.reason, text)
        reason = _REASONS[after.state]
        self._write(
            reason,
            f"card {after.uuid} is {state}: {text}",
            warning=after.state in (State.UNHEALTHY, State.QUARANTINED),
            topic=f"{reason}/{after.uuid}/{after.reason}",
        )

    def tell_unowned(self, uuid: str, unowned_bytes: int) -> None:
        """Tell of a card's memory that the driver shows for no process.

        What has doubled is another topic: it is written within the same minute.
        """
        text = (
            f"{unowned_bytes >> 20} MiB of card {uuid} are in use that the driver shows for no"
            " process: memory that was exported, and that descriptors keep alone"
        )
        logger.warning("%s: %s", UNEXPLAINED, text)
        topic = f"{UNEXPLAINED}/{uuid}/{unowned_bytes.bit_length()}"
        self._write(UNEXPLAINED, text, warning=True, topic=topic)

    def tell_stranger(self, uuid: str, container: str, what: str) -> None:
        """Tell what a container has of a card that no share of its own answers for."""
        text = f"{container} {what}"
        logger.warning("%s: %s", UNEXPLAINED, text)
        self._write(UNEXPLAINED, text, warning=True, topic=f"{UNEXPLAINED}/{uuid}/{container}")

    def _write(self, reason: str, message: str, *, warning: bool, topic: str) -> None:
        self._record(
            ObjectEvent(
                kind="Node",
                namespace="",
                name=self._node_name,
                uid=self._node_name,  # as the kubelet writes Events of its node
                reason=reason,
                message=message,
                warning=warning,
                topic=topic,
            )
        )
