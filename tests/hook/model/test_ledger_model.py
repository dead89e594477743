"""The protocols between processes, searched through: charge, refund, liveness, reclaim, publish.

``hook/README.md`` says what is searched and what is not. ``test_ledger_steps.py`` compares the
model with the code.
"""

import dataclasses
import os
import pathlib
import re
from collections.abc import Sequence

import pytest

from gpustack.adapters import mapped
from gpustack.wire.mapped import limits, two_slot_page
from tests.hook.model.faults import FAULTS, Fault
from tests.hook.model.machine import Machine
from tests.hook.model.page import Pages
from tests.hook.model.search import Plan, Search
from tests.hook.model.state import Bounds, Broken

UUID = "GPU-5d7c1b0a-8a39-4c1e-9d52-0e1f6b2a7c90"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The processes' calls, in how much room; each limit is too small for two of them together."""

    limit: int
    scripts: list[str]
    plan: Plan

    def search(self, fault: Fault | None = None) -> Search:
        bounds = Bounds(processes=len(self.scripts), slots=len(self.scripts), limit=self.limit)
        broken = fault or Fault(says="")
        machine = Machine(bounds, self.scripts, table=broken.rows(), local=broken.local)
        return Search(machine, self.plan)


def mortal(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


AT_THE_LIMIT = "two at the limit, killed anywhere, swaps that fail without a reason"
SCENES = {
    AT_THE_LIMIT: Scene(
        limit=2,
        scripts=["open, charge 1, return 1", "open, charge 2, look"],
        plan=Plan(first=(1, 1), mortal=mortal(0, 1), spurious=1),
    ),
    "two that want what a dead one held": Scene(
        limit=2,
        scripts=["open, charge 2", "open, charge 1", "open, charge 1"],
        plan=Plan(first=(2, 1, 1), mortal=mortal(0, 1, 2)),
    ),
    "one starts where another died, and a third wants what that held": Scene(
        limit=2,
        scripts=["open, charge 2", "open, charge 1", "open, charge 1"],
        plan=Plan(first=(2, 0, 1), mortal=mortal(0, 1)),
    ),
    "exec gives back": Scene(
        limit=2,
        scripts=["open, charge 1, exec, open, charge 2", "open, charge 1, return 1, look"],
        plan=Plan(first=(1, 1), mortal=mortal(0, 1)),
    ),
    "a fork at any point, and a parent that dies": Scene(
        limit=2,
        scripts=["open, charge 1, return 1", "open, charge 2", "exec"],
        plan=Plan(first=(0, 1, 0), mortal=mortal(0, 2), forks=((0, 2),)),
    ),
}
LONG_SCENES = {
    "three at the limit": Scene(
        limit=3,
        scripts=["open, charge 1, return 1", "open, charge 2, return 2", "open, charge 1"],
        plan=Plan(first=(1, 1, 1)),
    ),
    "three, two of which are killed while they charge": Scene(
        limit=2,
        scripts=["open, charge 2", "open, charge 1, look", "open, charge 1"],
        plan=Plan(first=(1, 1, 1), mortal=mortal(0, 1)),
    ),
    "a child that works on by itself": Scene(
        limit=2,
        scripts=["open, charge 1", "open, charge 2", "open, charge 1"],
        plan=Plan(first=(0, 1, 0), mortal=mortal(0), forks=((0, 2),)),
    ),
}


def test_two_at_the_limit_lose_exceed_refuse_and_await_nothing() -> None:
    assert SCENES[AT_THE_LIMIT].search().run() > 10_000


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SCENES if name != AT_THE_LIMIT])
def test_nothing_is_lost_exceeded_refused_or_waited_for(name: str) -> None:
    assert SCENES[name].search().run() > 10_000


@pytest.mark.long
@pytest.mark.parametrize("name", LONG_SCENES)
def test_nothing_is_lost_exceeded_refused_or_waited_for_by_three(name: str) -> None:
    assert LONG_SCENES[name].search().run() > 100_000


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_protocol_is_found(name: str) -> None:
    fault = FAULTS[name]
    found = []
    for scene in SCENES.values():
        try:
            scene.search(fault).run()
        except Broken as broken:
            found.append(str(broken).splitlines()[0])
            break
    assert re.search(fault.says, "".join(found)), found
    assert found


def test_a_page_is_read_whole_as_published_whenever_the_agent_dies() -> None:
    assert Pages(values=4, calls=2).run() > 10_000


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        (Pages(values=3, calls=1, looks_again=False), "never published"),
        (Pages(values=3, calls=1, counts_all=False), "never published|is in force"),
        (Pages(values=2, calls=1, checks=False), "torn|is in force"),
        (Pages(values=1, calls=1, fills_idle=False), "is in force"),
    ],
    ids=[
        "the slot may be another's by now (once ours)",
        "a generation comes again (once ours)",
        "no checksum",
        "the published slot is filled",
    ],
)
def test_a_fault_in_the_pages_is_found(pages: Pages, says: str) -> None:
    with pytest.raises(Broken, match=says):
        pages.run()


def a_share(percent: int) -> limits.Limits:
    share = limits.DeviceLimit(
        uuid=UUID,
        memory_bytes=1 << 30,
        compute_percent=percent,
        burst_percent=percent,
        context_bytes=0,
    )
    return limits.Limits(devices=(share,))


def test_the_agent_writes_the_idle_slot_and_then_its_number(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped.create_limits(tmp_path / "limits", a_share(50))
    images: list[bytes] = []
    readv = os.readv

    def recorded(fd: int, buffers: Sequence[memoryview]) -> int:
        images.append((tmp_path / "limits").read_bytes())
        count = readv(fd, buffers)
        images.append((tmp_path / "limits").read_bytes())
        return count

    monkeypatch.setattr(os, "readv", recorded)
    mapped.publish_limits(tmp_path / "limits", a_share(60))
    before, filled, still_filled, published = images
    assert filled == still_filled
    slot_bytes = two_slot_page.SLOT_HEADER.size + two_slot_page.BODY_BYTES
    slot = slice(two_slot_page.slot_offset(1), two_slot_page.slot_offset(1) + slot_bytes)
    number = two_slot_page.PUBLISHED_OFFSET
    assert filled != before
    assert before[: slot.start] + filled[slot] + before[slot.stop :] == filled
    assert filled[:number] + b"\x01" + filled[number + 1 :] == published != filled


def test_an_unpublished_generation_of_a_dead_agent_is_not_used_again(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "limits"
    mapped.create_limits(path, a_share(50))
    published = path.read_bytes()[two_slot_page.PUBLISHED_OFFSET]
    generations = []
    for percent in (60, 70):
        mapped.publish_limits(path, a_share(percent))
        generations.append(
            two_slot_page.SLOT_HEADER.unpack_from(
                path.read_bytes(), two_slot_page.slot_offset(1 - published)
            )[0]
        )
        with path.open("r+b") as file:  # as if it had died before its last write
            file.seek(two_slot_page.PUBLISHED_OFFSET)
            file.write(bytes([published]))
    assert len(set(generations)) == 2
