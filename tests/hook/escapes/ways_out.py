"""Ways out of a share: a test's words about the way that it tries, and the host's view of it.

`docs/isolation.md` is made of these words by `python -m tests.hook.isolation`.
That module names the ways without a test, with the reason.
"""

import dataclasses
import enum
import pathlib
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from gpustack.adapters import mapped
from gpustack.adapters.kube import ObjectEvent
from gpustack.agent.activity.ledgers import Ledgers
from gpustack.agent.activity.memory_judge import MemoryJudge
from gpustack.agent.activity.nvml_usage import ContainerSample
from gpustack.agent.activity.shares import Share
from gpustack.agent.activity.unaccounted import MemorySample, UnaccountedMemory
from gpustack.agent.violations.isolation_violations import IsolationViolations
from tests.hook.container import CARD, SHARE_BYTES
from tests.hook.root import HOOK_PATH, Root


class Outcome(enum.Enum):
    """The outcome of a way out, in the order of the page."""

    CLOSED = "closed"
    REPORTED = "reported"
    OPEN = "open"
    OUT_OF_SCOPE = "out of scope"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Escape:
    """One row of the table.

    Attributes:
        way: the tenant's action.
        outcome: its outcome.
        why: the reason, in words for an operator.
        test: the function that shows it.
    """

    way: str
    outcome: Outcome
    why: str
    test: str


FOUND: list[Escape] = []


_Test = TypeVar("_Test", bound=Callable[..., object])


def escape(way: str, outcome: Outcome, why: str) -> Callable[[_Test], _Test]:
    """Mark a test as the one that tries a way out."""

    def mark(function: _Test) -> _Test:
        module = function.__module__.rpartition(".")[2]
        test = f"{module}.py::{function.__name__}"
        FOUND.append(Escape(way=way, outcome=outcome, why=why, test=test))
        return function

    return mark


SHARE = Share(
    owner=("uid", "main"),
    namespace="team",
    pod="train",
    uuids=(CARD,),
    elastic=frozenset(),
    memory_bytes=SHARE_BYTES,
    folder=pathlib.Path("/"),
)


def reports_of(root: Root, *pids: int, share: Share = SHARE) -> list[str]:
    """Return the reasons of the events that the agent sends for processes on a card.

    The agent looks once a second, and may take two looks.
    """
    events: list[ObjectEvent] = []
    escapes = IsolationViolations(events.append, hooks=(root.folder / HOOK_PATH).parents[1])
    for _ in range(3):
        escapes.look_at(share, pids)
    return [event.reason for event in events]


def unaccounted_bytes(root: Root, pid: int) -> int:
    """Return the memory of a process that the agent finds outside of its container's ledger."""
    samples = UnaccountedMemory()
    sample = MemorySample(
        seen_bytes=root.seen_bytes(pid),
        charged_bytes=root.use().used_bytes,
        share_bytes=SHARE.memory_bytes,
    )
    for _ in range(3):
        found = samples.add(SHARE.owner, CARD, sample)
    return found


def first_line(client: "subprocess.Popen[str]") -> str:
    """Return the first line that a program prints."""
    assert client.stdout is not None
    return client.stdout.readline().strip()


def own_share(root: Root, folder: pathlib.Path) -> Share:
    """Return a share with a container's own files, which is in a folder of its own."""
    folder.mkdir()
    for name in mapped.FORMS:
        (folder / name).hardlink_to(root.folder / "etc/vcuda" / name)
    return dataclasses.replace(SHARE, folder=folder)


def judged(folder: pathlib.Path, pids: Sequence[int], seen_bytes: int) -> tuple[list[str], int]:
    """Return the reasons of the agent's events, and what it finds unaccounted, after three looks.

    Args:
        folder: the container's limits and ledger.
        pids: its processes that the driver shows on the card.
        seen_bytes: what the driver shows of all of them.
    """
    events: list[ObjectEvent] = []
    ledgers, share = Ledgers(time.monotonic_ns), dataclasses.replace(SHARE, folder=folder)
    escapes = IsolationViolations(events.append, hooks=folder)
    judge = MemoryJudge(escapes, tell_unowned=lambda *_: None, tell_stranger=lambda *_: None)
    sights = {CARD: {SHARE.owner: ContainerSample(memory_bytes=seen_bytes, pids=tuple(pids))}}
    for _ in range(3):
        judge.begin_look([share], ledgers)
        reading = ledgers.look(share)
        judge.take([share], sights, {SHARE.owner: reading}, ledgers)
    return [event.reason for event in events], judge.bytes_of(SHARE.owner, CARD)
