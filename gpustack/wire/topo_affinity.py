"""The columns of `nvidia-smi topo -m` after its matrix: CPUs and NUMA nodes that a card is near to.

Cells here may be blank (a container that sees no CPU of a card's node), and then counting words is
not enough: a word belongs to the heading that it stands under.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_TAB: Final = 8  # columns; what a terminal makes of a tab
_TITLES: Final = re.compile(r"CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID")
_NUMA: Final = "NUMA Affinity"
_CPUS: Final = "CPU Affinity"
_WORD: Final = re.compile(
    r"\S+(?:(?<=,)\s+(?=[0-9])\S+)*"
)  # a list of CPUs may have blanks: 0-3, 8-11
_CPU_LIST: Final = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's title, where it starts in the line, and where on a screen."""

    title: str
    start: int
    screen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A row's words after the matrix, and what they say; empty where they say nothing."""

    words: tuple[str, ...] = ()
    cpus: str = ""
    numa: str = ""


def columns(heading: str) -> tuple[Column, ...]:
    """Return the columns that a heading has after its devices."""
    return tuple(
        Column(
            title=" ".join(found.group().split()),
            start=found.start(),
            screen=_screen(heading, found.start()),
        )
        for found in _TITLES.finditer(heading)
    )


def words(line: str) -> list[str]:
    """Split a line at blanks and tabs, but for lists of CPUs with blanks after their commas."""
    return [re.sub(r"\s+", "", found.group()) for found in _WORD.finditer(line)]


def cells(line: str, count: int, known: Sequence[Column]) -> Cells:
    """Read the last `count` words of a row."""
    found = list(_WORD.finditer(line))
    found = found[len(found) - count :] if count else []
    texts = tuple(re.sub(r"\s+", "", each.group()) for each in found)
    if len(texts) >= len(known):
        titles = [column.title for column in known]
    else:
        titles = _under([_screen(line, each.start()) for each in found], known)
    values = dict(zip(titles, texts, strict=False))  # a heading may miss columns that rows have
    return Cells(words=texts, cpus=values.get(_CPUS, ""), numa=values.get(_NUMA, ""))


def numa_nodes(rows: Sequence[Cells]) -> list[int | None]:
    """Return the NUMA node of each card; None where the text doesn't say, or says several.

    Drivers before 450 have no NUMA column. Cards whose lists of CPUs have nothing in common are
    then on different nodes, and Linux numbers those by their CPUs. One list for all says nothing:
    it may be that of a virtual machine.
    """
    if any(row.numa for row in rows):
        return [int(row.numa) if row.numa.isdecimal() else None for row in rows]
    lists = [_cpus(row.cpus) for row in rows]
    nodes = sorted(set(lists), key=lambda cpus: min(cpus, default=-1))
    apart = all(one.isdisjoint(two) for one, two in itertools.combinations(nodes, 2))
    if len(nodes) < 2 or not nodes[0] or not apart:
        return [None] * len(rows)
    return [nodes.index(cpus) for cpus in lists]


def _cpus(text: str) -> frozenset[int]:
    if not _CPU_LIST.fullmatch(text):
        return frozenset()
    ranges = [part.split("-") for part in text.split(",")]
    return frozenset(cpu for ends in ranges for cpu in range(int(ends[0]), int(ends[-1]) + 1))


def _under(starts: Sequence[int], known: Sequence[Column]) -> list[str]:
    """Give each word the nearest column that is right of the last word's."""
    titles: list[str] = []
    left = list(known)
    for at, start in enumerate(starts):
        choice = left[: len(left) - (len(starts) - at) + 1]  # leave one for each word to come
        nearest = min(choice, key=lambda column: abs(column.screen - start))
        titles.append(nearest.title)
        left = left[left.index(nearest) + 1 :]
    return titles


def _screen(line: str, at: int) -> int:
    return len(line[:at].expandtabs(_TAB))
