"""The cards with their states, put together from the configuration."""

import pathlib
from typing import Final

from gpustack.adapters.kube import EventRecorder
from gpustack.adapters.nvml import Nvml
from gpustack.agent.health.card_states import CardStates, HealthRules
from gpustack.agent.health.node_events import NodeEvents
from gpustack.agent.health.state_file import StateFile
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings

_BOOT_ID: Final = pathlib.Path("/proc/sys/kernel/random/boot_id")


def rules(settings: AgentSettings) -> HealthRules:
    """Return the operator's rules."""
    return HealthRules(
        probe_seconds=settings.health_probe_seconds,
        ignored_xids=frozenset(settings.health_ignored_xids),
    )


def inventory(settings: AgentSettings, nvml: Nvml, events: EventRecorder) -> CardInventory:
    """Read the host's cards and what an earlier agent knew of them.

    Raises:
        NvmlError: the cards can't be read, or there are none.
        OSError: the state folder can't be made.
    """
    settings.state_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    boot_id = _BOOT_ID.read_text("ascii").strip()
    states = CardStates(
        StateFile(settings.state_dir / "health.json", boot_id=boot_id),
        rules(settings),
        tell=NodeEvents(settings.node_name, events.record).tell,
    )
    return CardInventory(
        nvml=nvml,
        node_name=settings.node_name,
        poll_seconds=settings.health_poll_seconds,
        states=states,
    )
