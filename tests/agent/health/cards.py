"""Cards of the fake driver with their states in a folder of the test."""

import pathlib

from gpustack.agent.health.card_states import CardStates, HealthRules
from gpustack.agent.health.state_file import StateFile
from gpustack.agent.node.inventory import CardInventory
from tests.fakes.nvml import FakeNvml, card

BOOT = "6f5d4d5e-0000-4000-8000-000000000000"


def card_inventory(root: pathlib.Path, nvml: FakeNvml | None = None) -> CardInventory:
    """Return the inventory of a host, with one card unless the driver has others."""
    states = CardStates(StateFile(root / "health.json", boot_id=BOOT), HealthRules(probe_seconds=0))
    driver = nvml or FakeNvml(card(0))
    return CardInventory(nvml=driver, node_name="gpu1", poll_seconds=1, states=states)
