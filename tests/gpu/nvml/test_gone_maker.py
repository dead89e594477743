"""For which process NVML shows memory whose maker has ended, while another still holds it.

The agent counts what is shown for a process as that one's, outside its ledger, and what is shown
for none as the card's (UnexplainedUse). It needs no setting for that, but the memory has to be in
one of the two.
"""

import pathlib
import sys
from typing import Final

import pytest

from tests.gpu.cards import MIB, Outside
from tests.gpu.host import Client, Programs
from tests.gpu.report import Report

pytestmark = pytest.mark.gpu

TITLE = "Memory that is shared by a descriptor, as NVML shows it, MiB"
SHARED_MIB: Final = 512
PAGE_MIB: Final = 2
PROBE: Final = pathlib.Path(__file__).parents[1] / "probes" / "shared_memory.py"


class Shown:
    """What NVML shows of memory, beyond what it showed at the beginning, MiB."""

    def __init__(self, outside: Outside, *pids: int) -> None:
        self._outside = outside
        self._pids = pids
        self._before = self._now()

    def _now(self) -> list[int]:
        self._outside.settled_bytes()
        held = [self._outside.held_bytes(pid) or 0 for pid in self._pids]
        return [*held, self._outside.nvml.unowned_bytes(self._outside.uuid)]

    def more(self) -> list[int]:
        """Return that of each process, and of none; one that has ended has none."""
        return [
            max(0, now - before) // MIB
            for now, before in zip(self._now(), self._before, strict=True)
        ]


def test_memory_whose_maker_is_gone_is_shown_somewhere(
    bare: Programs, outside: Outside, alone: None, report: Report, tmp_path: pathlib.Path
) -> None:
    program = sys.executable, PROBE, tmp_path / "socket", str(SHARED_MIB)
    with bare.client(*program) as maker, bare.client(*program) as holder:
        assert (maker.ask("begin"), holder.ask("begin")) == (0, 0)
        shown = Shown(outside, maker.pid, holder.pid)
        made = maker.ask("make")
        if made != 0:
            pytest.skip(f"not run: this card shares no memory by a descriptor: {made}")
        holder.tell("take")
        assert (maker.ask("give"), holder.answer()) == (0, 0)
        found = {"its maker lives": shown.more()}
        end(maker)
        found["its maker is gone, a descriptor is open"] = shown.more()
        assert holder.ask("close") == 0
        found["its maker is gone, no descriptor is open"] = shown.more()
    for when, (of_maker, of_holder, of_none) in found.items():
        report.put(
            TITLE, when, maker=f"{of_maker}", importer=f"{of_holder}", no_process=f"{of_none}"
        )
        missing = SHARED_MIB - of_maker - of_holder - of_none
        report.at_most(f"shown nowhere while {when}, MiB", missing, PAGE_MIB)
    report.note(TITLE, f"{SHARED_MIB} MiB, which another process has imported.")


def end(client: Client) -> None:
    client.process.kill()
    client.process.wait()
