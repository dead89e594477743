"""The columns of `nvidia-smi topo -m` after its matrix: CPUs and NUMA nodes near each card.

Cells here may be blank (a container that sees no CPU of a card's node), and then counting words is
not enough: a word belongs to the heading that it stands under, by tabs where the text has them.
"""

import itertools
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

_TAB: Final = 8  # columns; what a terminal makes of a tab
_TITLES: Final = re.compile(r"CPU\s+Affinity|NUMA\s+Affinity|GPU\s+NUMA\s+ID")
_MOST_COLUMNS: Final = 3  # of these titles; each costs a look at all before it
_NUMA: Final = "NUMA Affinity"
_CPUS: Final = "CPU Affinity"
_WORD: Final = re.compile(r"\S+(?:(?<=,) (?=[0-9])\S+)*")  # lists may have blanks: 0-3, 8-11
_LIST: Final = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's title, its start in the line and on a screen, and the tab before it."""

    title: str
    start: int
    screen: int
    tab: int


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
            tab=_tabs(heading, found.start()),
        )
        for found in itertools.islice(_TITLES.finditer(heading), _MOST_COLUMNS)
    )


def words(line: str) -> list[str]:
    """Split a line at blanks and tabs; lists of CPUs with blanks after their commas stay whole."""
    return [re.sub(r"\s+", "", found.group()) for found in _WORD.finditer(line)]


def cells(line: str, count: int, known: Sequence[Column]) -> Cells:
    """Read the last `count` words of a row."""
    found = list(_WORD.finditer(line))
    found = found[len(found) - count :] if count else []
    texts = tuple(re.sub(r"\s+", "", each.group()) for each in found)
    if len(texts) >= len(known):
        titles = [column.title for column in known]
    else:
        titles = _under(line, [each.start() for each in found], known)
    values = dict(zip(titles, texts, strict=False))  # a heading may miss columns that rows have
    return Cells(words=texts, cpus=values.get(_CPUS, ""), numa=values.get(_NUMA, ""))


def numa_nodes(rows: Sequence[Cells]) -> list[int | None]:
    """Return the NUMA node of each card; None where the text doesn't say, or says several.

    Several are named where GPUs' memory makes nodes without CPUs (GB200: `0,3-9` and `1,19-25`).
    Where such lists have nothing in common, the lowest of each is the one with the CPUs: Linux
    numbers those first.

    Drivers before 450 have no NUMA column. Cards whose lists of CPUs have nothing in common are
    then on different nodes, and Linux numbers those by their CPUs. One list for all says nothing:
    it may be that of a virtual machine.
    """
    told = [_numbers(row.numa) for row in rows]
    if any(told):
        apart = _apart({nodes for nodes in told if nodes})
        return [min(nodes) if len(nodes) == 1 or (nodes and apart) else None for nodes in told]
    cpus = [_numbers(row.cpus) for row in rows]
    if not all(cpus) or not _apart(set(cpus)):
        return [None] * len(rows)
    order = sorted(set(cpus), key=min)
    return [order.index(each) for each in cpus]


def _numbers(text: str) -> frozenset[int]:
    if not _LIST.fullmatch(text):
        return frozenset()
    ranges = [part.split("-") for part in text.split(",")]
    return frozenset(number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1))


def _apart(lists: Set[frozenset[int]]) -> bool:
    """Say whether these are several lists that have nothing in common."""
    return len(lists) > 1 and all(a.isdisjoint(b) for a, b in itertools.combinations(lists, 2))


def _under(line: str, starts: Sequence[int], known: Sequence[Column]) -> list[str]:
    """Give each word the title of the nearest column that is right of the last word's."""
    tabbed = "\t" in line and len({column.tab for column in known}) == len(known)
    left = [(column.title, column.tab if tabbed else column.screen) for column in known]
    titles: list[str] = []
    for at, start in enumerate(starts):
        place = _tabs(line, start) if tabbed else _screen(line, start)
        choice = left[: len(left) - (len(starts) - at) + 1]  # leave one for each word to come
        nearest = min(choice, key=lambda column: abs(column[1] - place))
        titles.append(nearest[0])
        left = left[left.index(nearest) + 1 :]
    return titles


def _screen(line: str, at: int) -> int:
    return len(line[:at].expandtabs(_TAB))


def _tabs(line: str, at: int) -> int:
    return line.count("\t", 0, at)
