"""Ways out of a share: a test's words about the way that it tries, and the host's view of it.

`docs/isolation.md` is made of these words by `python -m tests.hook.isolation`.
That module names the ways without a test, with the reason.
"""

import dataclasses
import enum
import pathlib
from collections.abc import Callable
from typing import TypeVar

from gpustack.adapters.kube import ObjectEvent
from gpustack.agent.activity.isolation_violations import IsolationViolations
from gpustack.agent.activity.shares import Share
from gpustack.agent.activity.unaccounted import MemorySample, UnaccountedMemory
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
