"""What a CUDA context takes of the card, by what NVML says before and after."""

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Final

from tests.gpu.cards import MIB, Outside
from tests.gpu.host import Client, Programs

TIMES: Final = 5
DEFAULT: Final = 512 * MIB  # hook.context_bytes of the agent's configuration: until it is measured
MEMORY: Final = pathlib.Path(__file__).parent / "probes" / "memory.py"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """One figure a run, bytes.

    Attributes:
        first: of a process's first context, by what is taken of the card.
        held: what NVML says that the process holds with it; 0 where it doesn't say.
        second: of one more in the same process.
    """

    first: Sequence[int]
    held: Sequence[int]
    second: Sequence[int]

    @property
    def recommended(self) -> int:
        """The value for the agent's configuration: the largest, in whole MiB."""
        largest = max(*self.first, *self.held, *self.second)
        return -(-largest // MIB) * MIB or DEFAULT


def client(programs: Programs, library: str | pathlib.Path = "driver") -> Client:
    """Start what takes memory when told to (`probes/memory.py`)."""
    return programs.client(sys.executable, MEMORY, library)


def measured(bare: Programs, outside: Outside) -> Sizes:
    """Make contexts in some processes, one after another."""
    runs = [_once(bare, outside) for _ in range(TIMES)]
    first, held, second = zip(*runs, strict=True)
    return Sizes(first=first, held=held, second=second)


def _once(bare: Programs, outside: Outside) -> tuple[int, int, int]:
    empty = outside.settled_bytes()
    with client(bare) as process:
        assert isinstance(process.ask("info"), list)
        one = outside.used_bytes()
        held = outside.held_bytes(process.pid) or 0
        assert process.ask("context") == 0
        two = outside.used_bytes()
    return max(0, one - empty), held, max(0, two - one)
