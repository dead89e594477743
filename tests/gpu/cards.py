"""The card that the checks run on, and what the driver says of it from outside any container."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import time
from typing import Final

from gpustack.adapters.nvml import Nvml, NvmlError
from gpustack.model.node import Card

MIB: Final = 1 << 20

# The simulated driver's cards have plausible names: it is known by its shared state.
_SIMULATED_STATE: Final = os.environ.get("SIMGPU_STATE", "/var/lib/simgpu/state")
_INIT: Final = "import ctypes, sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) & 255)"
# How long the driver may take to show that a process is gone.
_SETTLE_SECONDS: Final = 10.0


class NoCard(Exception):
    """There is no card to check anything on; the text says what was found."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCard:
    """A card that answers.

    Attributes:
        card: as NVML describes it.
        driver: the driver's version.
        simulated: it is no card but tests/simgpu.
    """

    card: Card
    driver: str
    simulated: bool

    @property
    def title(self) -> str:
        """What its figures are headed by."""
        return f"simulated card ({self.card.model})" if self.simulated else self.card.model


def answering() -> CheckedCard:
    """Return the first healthy card whose CUDA driver starts.

    Raises:
        NoCard: there is none.
    """
    try:
        nvml = Nvml()
    except NvmlError as error:
        raise NoCard(f"no card answers ({error})") from error
    try:
        inventory = nvml.inventory()
    except NvmlError as error:
        raise NoCard(f"no card answers ({error})") from error
    finally:
        nvml.close()
    healthy = [card for card in inventory.cards if card.healthy]
    if not healthy:
        raise NoCard(f"of {len(inventory.cards)} cards none is healthy and whole")
    # In a process of its own: ours must not hold a context, nor be forked with one.
    code = subprocess.run([sys.executable, "-c", _INIT], check=False).returncode
    if code != 0:
        raise NoCard(f"no card answers (cuInit says {code})")
    simulated = pathlib.Path(_SIMULATED_STATE).exists()
    return CheckedCard(card=healthy[0], driver=inventory.driver, simulated=simulated)


class Outside:
    """NVML as the host sees it: nothing of the hook is in this process.

    Attributes:
        nvml: the library, which knows the cards.
        uuid: the card's.
    """

    def __init__(self, card: CheckedCard) -> None:
        self.nvml = Nvml()
        self.nvml.inventory()
        self.uuid = card.card.uuid

    def close(self) -> None:
        """Let go of the library."""
        self.nvml.close()

    def used_bytes(self) -> int:
        """Return what all processes together have taken of the card."""
        query = ["nvidia-smi", f"--id={self.uuid}", "--query-gpu=memory.used"]
        printed = subprocess.check_output([*query, "--format=csv,noheader,nounits"], text=True)
        return int(printed) * MIB

    def held_bytes(self, *pids: int) -> int | None:
        """Return what processes hold of the card, None where the driver doesn't count that."""
        found = {each.pid: each.memory_bytes for each in self.nvml.processes(self.uuid)}
        held = sum(found.get(pid, 0) for pid in pids)
        return held or None

    def others(self) -> int:
        """Return how many processes are on the card."""
        return len(self.nvml.processes(self.uuid))

    def settled_bytes(self) -> int:
        """Return what is taken once that has stopped changing."""
        before = self.used_bytes()
        until = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < until:
            time.sleep(0.3)
            now = self.used_bytes()
            if now == before:
                return now
            before = now
        return before
