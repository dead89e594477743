"""Figures of real cards on ``docs/benchmarks.md``: ``python -m tests.benchmarks.gpu FILE...``.

`make gpu` measures where a card answers and keeps its figures in a file of JSON; one machine may
need several runs, and the page may lie on another machine. Each card has a block of its own on the
page, between two comments. This module replaces the block as a whole; the rest of the page stays.

``--variables FOLDER`` writes what the role gpustack_agent is to be told of such a card into
FOLDER/measured.yml, from where Ansible takes it: an inventory's ``group_vars/GROUP`` or
``host_vars/HOST``.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

PAGE: Final = pathlib.Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"

_BLOCK: Final = re.compile(
    r"<!-- card: (?P<card>.+?) -->\n.*?<!-- end of card: (?P=card) -->\n", re.DOTALL
)
_NONE: Final = "-"


@dataclasses.dataclass(slots=True, kw_only=True)
class Table:
    """Figures in rows and columns, in the order in which they came.

    Attributes:
        rows: by the row's name and the column's.
        note: what a reader has to know.
    """

    rows: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    note: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class Figures:
    """What was measured on one card.

    Attributes:
        card: its name.
        machine: driver and kernel.
        day: of the last measurement, as 2026-01-31.
        tables: by title.
        not_run: why a check was left out, by its name.
        variables: of the role gpustack_agent, for hosts with such cards.
    """

    card: str
    machine: str
    day: str
    tables: dict[str, Table] = dataclasses.field(default_factory=dict)
    not_run: dict[str, str] = dataclasses.field(default_factory=dict)
    variables: dict[str, bool | int] = dataclasses.field(default_factory=dict)

    def put(self, title: str, row: str, **columns: str) -> None:
        """Set figures of a row; underscores in a column's name stand for spaces."""
        cells = self.tables.setdefault(title, Table()).rows.setdefault(row, {})
        cells.update({name.replace("_", " "): text for name, text in columns.items()})

    def join(self, other: "Figures") -> None:
        """Take over the figures of a later run."""
        self.day = other.day
        for title, table in other.tables.items():
            mine = self.tables.setdefault(title, Table())
            mine.note = table.note or mine.note
            for row, cells in table.rows.items():
                mine.rows.setdefault(row, {}).update(cells)
        self.not_run.update(other.not_run)
        self.variables.update(other.variables)


def encode(figures: Figures) -> str:
    """Return the text of a file of figures."""
    return json.dumps(dataclasses.asdict(figures), indent=1, ensure_ascii=False)


def decode(text: str) -> Figures:
    """Return what a file of figures holds.

    Raises:
        ValueError: the text isn't a file of figures.
    """
    try:
        document: Mapping[str, Any] = json.loads(text)
        tables = {title: Table(**table) for title, table in document["tables"].items()}
        return Figures(
            card=document["card"],
            machine=document["machine"],
            day=document["day"],
            tables=tables,
            not_run=document["not_run"],
            variables=document.get("variables", {}),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no file of figures: {error!r}") from error


def block(figures: Figures) -> str:
    """Return a card's part of the page."""
    parts = [
        f"<!-- card: {figures.card} -->",
        f"## On a real card: {figures.card}",
        "",
        f"Written by `make gpu` on {figures.day}; {figures.machine}.",
        "",
    ]
    for title, table in figures.tables.items():
        parts += [f"### {title}", "", *_rows(table), ""]
        parts += [table.note, ""] if table.note else []
    if figures.variables:
        parts += ["### What the agent is told of it", "", "```yaml"]
        parts += [*_assignments(figures), "```", ""]
    if figures.not_run:
        parts += ["### Not run", ""]
        parts += [f"- {name}: {why}" for name, why in figures.not_run.items()]
        parts += [""]
    return "\n".join([*parts, f"<!-- end of card: {figures.card} -->", ""])


def _rows(table: Table) -> Iterable[str]:
    columns = list(dict.fromkeys(name for cells in table.rows.values() for name in cells))
    yield "| | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for row, cells in table.rows.items():
        yield f"| {row} | " + " | ".join(cells.get(name, _NONE) for name in columns) + " |"


def _assignments(figures: Figures) -> Iterable[str]:
    """Yield the variables as lines of YAML."""
    return (f"{name}: {json.dumps(value)}" for name, value in sorted(figures.variables.items()))


def write_variables(folder: pathlib.Path, figures: Figures) -> pathlib.Path | None:
    """Write a card's variables where Ansible finds them; returns the file, None without any.

    Args:
        folder: of an inventory's variables: group_vars/GROUP or host_vars/HOST.
        figures: of the card.
    """
    if not figures.variables:
        return None
    head = f"# Measured by `make gpu` on {figures.day}: {figures.card}, {figures.machine}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "measured.yml"
    file.write_text("\n".join(["---", head, *_assignments(figures), ""]))
    return file


def blocks(page: str) -> Sequence[str]:
    """Return the blocks of cards on a page; `make bench` keeps them."""
    return [found[0] for found in _BLOCK.finditer(page)]


def placed(page: str, figures: Figures) -> str:
    """Return the page with a card's figures in their place, at the end if they are new."""
    new = block(figures)
    for found in _BLOCK.finditer(page):
        if found["card"] == figures.card:
            return page[: found.start()] + new + page[found.end() :]
    return page.rstrip("\n") + "\n\n" + new


def main(arguments: Sequence[str]) -> int:
    """Put the figures of some files on the page, the later ones over the earlier."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--variables", metavar="FOLDER", type=pathlib.Path)
    given = parser.parse_args(arguments)
    cards: dict[str, Figures] = {}
    for file in given.files:
        figures = decode(file.read_text())
        cards.setdefault(figures.card, figures).join(figures)
    if given.variables is not None and len(cards) > 1:
        parser.error(f"--variables takes one card; these are {', '.join(sorted(cards))}")
    for figures in cards.values():
        PAGE.write_text(placed(PAGE.read_text(), figures))
        if given.variables is not None:
            write_variables(given.variables, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
