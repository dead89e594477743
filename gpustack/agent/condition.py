"""Whether the agent can do its work, for `/readyz`, for systemd and for the log.

A node's agent works for the kubelet, so systemd gets READY as soon as the kubelet watches both
plugins. While the API server is away, the agent serves the pods of its checkpoint; the state
counts as a problem all the same: until the node's pods are known, no new decision is.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from gpustack.adapters.systemd import Notifier, watchdog_seconds
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.identification.runtime import RuntimeView
from gpustack.agent.kubelet.registrar import Registrar
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.node.publisher import NodePublisher
from gpustack.agent.settings import AgentSettings
from gpustack.agent.tasks import Tasks

logger = logging.getLogger(__name__)

_BEAT_SECONDS: Final = 1.0
# A call into NVML that lasts so long hangs in the driver: reading sixteen cards without persistence
# mode, which start anew for each reader, takes less. Only a new process gets rid of its thread.
_HUNG_SECONDS: Final = 30.0


def checks(
    settings: AgentSettings,
    pods: PodView,
    publisher: NodePublisher,
    runtime: RuntimeView,
    inventory: CardInventory,
) -> dict[str, Callable[[], str]]:
    """Return, by problem in words for people, a function that returns its cause, if any."""
    return {
        f"the pods of node {settings.node_name} are not known, asked with kubeconfig"
        f" {settings.kubeconfig}": lambda: pods.problem,
        "the node's cards are not published": lambda: publisher.problem,
        f"the container runtime at {runtime.endpoint} does not answer": (lambda: runtime.problem),
        "the cards can't be asked": lambda: inventory.problem,
        "the states of the cards are not kept": lambda: inventory.states.problem,
    }


class Condition:
    """The agent's problems, and their report to systemd and the log.

    Args:
        checks: as the function `checks` returns them.
        nvml_seconds: for how long the oldest call into NVML has not returned.
    """

    def __init__(
        self,
        *,
        tasks: Tasks,
        registrar: Registrar,
        inventory: CardInventory,
        checks: Mapping[str, Callable[[], str]],
        nvml_seconds: Callable[[], float],
    ) -> None:
        self._tasks = tasks
        self._registrar = registrar
        self._inventory = inventory
        self._checks = checks
        self._nvml_seconds = nvml_seconds

    def also(self, what: str, check: Callable[[], str]) -> None:
        """Ask about one more problem, too."""
        self._checks = {**self._checks, what: check}

    def unready(self) -> list[str]:
        """Return the problems that keep the agent from taking work."""
        problems = self.unwell()
        found = {what: check() for what, check in self._checks.items()}
        problems += [f"{what}: {why}" for what, why in found.items() if why]
        if not self._registrar.ready:
            problems.append("the kubelet does not watch both device plugins")
        return problems

    def unwell(self) -> list[str]:
        """Return the problems that only a restart may cure."""
        problems = ["a thread has failed"] if self._tasks.failed else []
        hung = self._nvml_seconds()
        if hung >= _HUNG_SECONDS:
            problems.append(f"a call into NVML has not returned for {hung:.0f} s")
        return problems

    def tell(self, notifier: Notifier) -> int:
        """Report the agent's state to systemd until it stops; return the exit status.

        The watchdog hears nothing while a call into NVML hangs: systemd then starts the agent anew,
        and the containers run on.
        """
        pause = min(_BEAT_SECONDS, watchdog_seconds() / 3 or _BEAT_SECONDS)
        started = was_ready = False
        told = ""
        while not self._tasks.stop.wait(pause):
            if self._nvml_seconds() < _HUNG_SECONDS:
                notifier.watchdog()
            problems = self.unready()
            status = "; ".join(problems) or _cards(self._inventory)
            if not started and self._registrar.ready:
                started = True
                notifier.ready(status)
            elif status != told:
                notifier.status(status)
            if problems and (was_ready or not told):
                logger.warning("not ready: %s", status)
            elif not problems and not was_ready:
                logger.info("ready: %s", status)
            told, was_ready = status, not problems
        notifier.stopping()
        return 1 if self._tasks.failed else 0


def _cards(inventory: CardInventory) -> str:
    """Return the node's cards in words, with those that take no new work and those left out."""
    node = inventory.node
    text = f"{len(node.cards)} cards, driver {node.driver}"
    closed = [f"{card.minor}: {card.reason}" for card in node.cards if not card.healthy]
    if closed:
        text += f"; closed to new pods: {', '.join(closed)}"
    return "; left out: ".join((text, *inventory.left_out))
