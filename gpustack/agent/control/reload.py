"""Taking over a changed configuration file without a restart, as far as that is possible."""

import dataclasses
import logging
import threading
from typing import Final

from gpustack.adapters.control import ControlRefusal
from gpustack.agent import settings
from gpustack.agent.health.build import rules
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings
from gpustack.wire.config import ConfigError

logger = logging.getLogger(__name__)

LIVE: Final = {
    "log_level": "log_level",
    "health_poll_seconds": "health.poll_seconds",
    "health_probe_seconds": "health.probe_seconds",
    "health_ignored_xids": "health.ignored_xids",
}
"""What may change while the agent runs: the field of the settings, and its key in agent.yml."""


class ConfigurationReload:
    """Compares the file with the configuration in force, and takes all of it over, or nothing.

    Args:
        current: the configuration in force.
        inventory: has the rules of health.
    """

    def __init__(self, current: AgentSettings, inventory: CardInventory) -> None:
        self._current = current
        self._inventory = inventory
        self._lock = threading.Lock()

    def reload(self) -> tuple[str, ...]:
        """Take the file over; return the keys that have another value now.

        Raises:
            ControlRefusal: the file can't be used, or a key has changed that needs a restart.
        """
        with self._lock:
            try:
                new = settings.load(self._current.file)
            except ConfigError as error:
                raise ControlRefusal(f"the old configuration stays in force: {error}") from error
            changed = [
                field.name
                for field in dataclasses.fields(AgentSettings)
                if getattr(new, field.name) != getattr(self._current, field.name)
            ]
            fixed = [each for each in changed if each not in LIVE]
            if fixed:
                raise ControlRefusal(
                    f"the old configuration stays in force: {self._current.file}:"
                    f" {', '.join(map(settings.key_of, fixed))} can't change while the agent runs;"
                    " restart gpustack-agent"
                )
            self._apply(new)
            self._current = new
        keys = tuple(LIVE[each] for each in changed)
        logger.info("configuration reloaded changed=%s", ",".join(keys) or "nothing")
        return keys

    def _apply(self, new: AgentSettings) -> None:
        """Put into force what `LIVE` names."""
        logging.getLogger().setLevel(new.log_level.upper())
        self._inventory.poll_seconds = new.health_poll_seconds
        self._inventory.states.rules = rules(new)

    def on_signal(self) -> None:
        """Do so for a SIGHUP, whose sender gets no answer: a refusal goes to the log."""
        try:
            self.reload()
        except ControlRefusal as refusal:
            logger.error("not reloaded: %s", refusal)
