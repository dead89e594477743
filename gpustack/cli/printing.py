"""Answers on the screen: a table for people, JSON for programs."""

import json
from collections.abc import Sequence
from typing import Any


def show(output: str, rows: Sequence[Sequence[object]], value: dict[str, Any]) -> None:
    """Print the rows as a table with its heading first, or the value as JSON."""
    show_all(output, [rows], value)


def show_all(
    output: str, tables: Sequence[Sequence[Sequence[object]]], value: dict[str, Any]
) -> None:
    """Print several tables with an empty line between them, or the value as JSON."""
    if output == "json":
        print(json.dumps(value, indent=2))
        return
    for number, rows in enumerate(tables):
        if number:
            print()
        _table(rows)


def _table(rows: Sequence[Sequence[object]]) -> None:
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    for row in texts:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())
