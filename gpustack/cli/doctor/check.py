"""Checks, what they find, and how a list of them is run: pure functions over what was read.

A check's function judges values and reads nothing itself, so that each can be tested with every
value. What could not be read is known by name: the checks that need it say so, and the others go
on.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from gpustack.wire.one_line import one_line

_LONGEST_FOUND: Final = 600  # characters; as the longest problem of a quota
_LONGEST_SUBJECT: Final = 320  # characters; namespace and name of a pod have 317 at most


class Severity(enum.StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Facts(Protocol):
    """What was read."""

    @property
    def unread(self) -> Mapping[str, str]:
        """Why an input can't be read, by its name."""

    @property
    def unread_mend(self) -> str:
        """What helps where an input can't be read; empty where the check's own words do."""

    @property
    def absent(self) -> Mapping[str, str]:
        """Why an input isn't looked at, by its name."""


_F = TypeVar("_F", bound=Facts)
_F_contra = TypeVar("_F_contra", bound=Facts, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a check's function says of one thing.

    Attributes:
        level: how bad it is.
        text: what was found.
        subject: of which thing, `node gpu1`; empty for the whole.
        mend: what mends this, where the check's own words don't.
    """

    level: Severity
    text: str
    subject: str = ""
    mend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[_F_contra]):
    """One check.

    Attributes:
        name: as the output has it.
        why: why it matters.
        mend: one command, or a section of a document.
        find: what it says of the facts; at least one thing.
        needs: the inputs without which it can't say anything.
        unread: how bad it is where one of them can't be read.
    """

    name: str
    why: str
    mend: str
    find: Callable[[_F_contra], Sequence[Found]]
    needs: tuple[str, ...] = ()
    unread: Severity = Severity.WARN


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line of the output; texts are one line each, without control characters."""

    check: str
    level: Severity
    subject: str
    found: str
    why: str
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotChecked:
    """A check whose input isn't looked at here, and why."""

    check: str
    why: str


def ok(text: str) -> list[Found]:
    """Return the answer of a check that finds nothing wrong."""
    return [Found(level=Severity.OK, text=text)]


def judged(problems: Iterable[Found], good: str) -> list[Found]:
    """Return the problems, or what is good where there are none."""
    return list(problems) or ok(good)


def run(checks: Iterable[Check[_F]], facts: _F) -> Iterator[CheckResult | NotChecked]:
    """Yield what the checks find, in their order."""
    for check in checks:
        absent = next((facts.absent[each] for each in check.needs if each in facts.absent), None)
        if absent is not None:
            yield NotChecked(check=check.name, why=absent)
            continue
        unread = next((facts.unread[each] for each in check.needs if each in facts.unread), None)
        answers = (
            check.find(facts)
            if unread is None
            else [_unread(check.unread, unread, facts.unread_mend)]
        )
        for each in answers:
            yield CheckResult(
                check=check.name,
                level=each.level,
                subject=one_line(each.subject, _LONGEST_SUBJECT),
                found=one_line(each.text, _LONGEST_FOUND),
                why=check.why,
                mend="" if each.level is Severity.OK else each.mend or check.mend,
            )


def _unread(level: Severity, why: str, mend: str) -> Found:
    """Say why an input can't be read: that is itself the fault, or keeps a check from its work."""
    text = why if level is Severity.FAIL else f"can't be checked: {why}"
    return Found(level=level, text=text, mend=mend)
