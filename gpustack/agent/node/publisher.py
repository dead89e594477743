"""The node's annotations, label and condition: its cards, links and health.

The extender reads the annotations, people and their alerts the condition. The agent writes them at
start, whenever the inventory changes, and every ten minutes, so that an edit or a removal is
undone. What its containers do against their limits goes in the same write, and in one a minute at
most by itself: tenants bring that about.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpustack import __version__
from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable
from gpustack.agent.health.card_states import now_text
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings
from gpustack.agent.violations.standing import StandingViolations
from gpustack.model.model_name import label_safe_model
from gpustack.model.node import Node
from gpustack.wire import violations as node_violations
from gpustack.wire.keys import Keys
from gpustack.wire.kube import node_condition
from gpustack.wire.nodes import MODEL_LABEL, UNSAID, NodeSoftware, encode_devices
from gpustack.wire.violations import ShareViolation

logger = logging.getLogger(__name__)

_REPEAT_SECONDS = 600.0
_RETRY_SECONDS = 5.0
_LISTED_SECONDS = 60.0  # between two writes that only they ask for
_LOOK_SECONDS = 0.1  # how soon a stop is noticed


@dataclasses.dataclass(frozen=True, slots=True)
class NodePatch:
    """What is written of a node.

    Attributes:
        keys: the domain's names.
        labels: the operator's, besides that of the model.
        software: what runs on the node.
    """

    keys: Keys
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    software: NodeSoftware = UNSAID

    def body(self, node: Node, violations: Sequence[ShareViolation]) -> Mapping[str, Any]:
        """Return the patch; a node without violations has no such annotation."""
        listed = node_violations.encode(violations) if violations else None  # takes it away
        annotations = {
            self.keys.gpu_devices: encode_devices(node, self.software),
            self.keys.gpu_violations: listed,
        }
        labels = {**self.labels, MODEL_LABEL: label_safe_model(node.cards[0].model)}
        return {"metadata": {"annotations": annotations, "labels": labels}}


def patch_of(keys: Keys, settings: AgentSettings) -> NodePatch:
    """Return what these settings let an agent of this version write."""
    software = NodeSoftware(agent=__version__, hook=settings.hook_version)
    return NodePatch(keys, settings.node_labels, software)


class NodePublisher:
    """Keeps the node object up to date, with the node's own identity.

    Args:
        client: the API server.
        patch: what is written.
        inventory: the cards.
        held: returns the node with what is held of it by pods that are over; None: not known yet.
        violations: what containers do against their limits.
        clock: monotonic seconds.

    Attributes:
        published: it was written at least once.
        problem: why the last attempt failed; empty when it didn't.
    """

    def __init__(
        self,
        client: KubeClient,
        patch: NodePatch,
        inventory: CardInventory,
        *,
        held: Callable[[Node], Node | None] = lambda node: node,
        violations: StandingViolations | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._patch = patch
        self._inventory = inventory
        self._held = held
        self._violations = violations or StandingViolations()
        self._clock = clock
        self.published = threading.Event()
        self.problem = ""

    def run(self, stop: threading.Event) -> None:
        """Publish until `stop` is set."""
        written: Node | None = None
        listed: tuple[ShareViolation, ...] = ()
        seen, due, listed_due = -1, self._clock(), self._clock()
        while not stop.is_set():
            node, seen = self._inventory.wait_for_change(seen, _LOOK_SECONDS)
            shown, found, now = self._held(node), self._violations.listed, self._clock()
            if shown is None:
                continue
            is_listed = found == listed or now < listed_due
            if shown == written and now < due and is_listed:
                continue
            if self.publish(shown, found):
                listed_due = listed_due if found == listed else now + _LISTED_SECONDS
                written, listed, due = shown, found, now + _REPEAT_SECONDS
            else:
                stop.wait(_RETRY_SECONDS)

    def publish(self, node: Node, violations: Sequence[ShareViolation] = ()) -> bool:
        """Write annotations, labels and condition; return whether the API server took them."""
        path = f"/api/v1/nodes/{node.name}"
        try:
            found = self._client.patch(path, self._patch.body(node, violations))
            condition = node_condition.to_write(node, found, now_text())
            if condition is not None:
                self._client.patch(f"{path}/status", {"status": {"conditions": [condition]}})
        except (KubeError, KubeUnavailable) as error:
            self.problem = str(error)
            logger.warning("node not published yet node=%s: %s", node.name, error)
            return False
        self.problem = ""
        self.published.set()
        logger.info("node published node=%s cards=%d", node.name, len(node.cards))
        return True
