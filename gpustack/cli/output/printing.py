"""Answers on the screen: a table for people, JSON for programs, progress for a person."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

_BOLD: Final = "\x1b[1m"
_RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"
_GAP: Final = "  "  # between columns
_CUT: Final = "\N{HORIZONTAL ELLIPSIS}"
_NARROWEST: Final = 6  # characters of a column that is cut


class Alarm(str):
    """A cell that people must not overlook: red where there are colours."""

    __slots__ = ()


def show(output: str, rows: Sequence[Sequence[object]], value: dict[str, Any]) -> None:
    """Print the rows as a table with its heading first, or the value as JSON."""
    show_all(output, [rows], value)


def show_all(
    output: str, tables: Sequence[Sequence[Sequence[object]]], value: dict[str, Any]
) -> None:
    """Print several tables with an empty line between them, or the value as JSON."""
    if output == "json":
        _json(value)
        return
    show_tables(tables)


def show_tables(
    tables: Sequence[Sequence[Sequence[object]]], *, headers: bool = True, whole: bool = False
) -> None:
    """Print several tables with an empty line between them; without `headers`, none has one.

    On a terminal the widest columns are cut until a line fits, unless the cells must stay `whole`;
    a file gets every cell whole.
    """
    coloured = _coloured()
    cut = sys.stdout.isatty() and not whole
    room = shutil.get_terminal_size().columns if cut else None
    for number, rows in enumerate(tables):
        if number:
            print()
        _table(rows, coloured=coloured, room=room, headers=headers)


def tell(text: object) -> None:
    """Print an error or an omission to stderr: one line, whatever the text holds."""
    line = " ".join(str(text).splitlines())
    print(f"gpustack: {_printable(line)}", file=sys.stderr)


def progress(name: str) -> Callable[[int, int], None] | None:
    """Return a function that shows a person how many pods of how many are done, and no program."""
    if not sys.stderr.isatty():
        return None
    told = -1

    def tell(done: int, total: int) -> None:
        nonlocal told
        percent = 100 * done // total
        if percent != told:
            told = percent
            end = "\n" if done == total else ""
            sys.stderr.write(f"\r{name}: {percent} % of {total} pods{end}")
            sys.stderr.flush()

    return tell


def _coloured() -> bool:
    """Say whether stdout is a terminal whose user wants colours (https://no-color.org)."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def _json(value: dict[str, Any]) -> None:
    """Print an object, a line for each entry of its members, and never all of it in memory.

    The answers of a thousand nodes to ten thousand pods are most of a gigabyte.
    """
    write = sys.stdout.write
    write("{")
    for number, (key, member) in enumerate(value.items()):
        write(f"{',' if number else ''}\n  {json.dumps(key)}: ")
        match member:
            case [_, *_]:
                _lines("[]", (json.dumps(each) for each in member), write)
            case {**entries} if entries:
                texts = (f"{json.dumps(k)}: {json.dumps(each)}" for k, each in entries.items())
                _lines("{}", texts, write)
            case _:
                write(json.dumps(member))
    write("\n}\n" if value else "}\n")


def _lines(brackets: str, texts: Iterator[str], write: Callable[[str], object]) -> None:
    write(brackets[0])
    for number, text in enumerate(texts):
        write(f"{',' if number else ''}\n    {text}")
    write(f"\n  {brackets[1]}")


def _table(
    rows: Sequence[Sequence[object]], *, coloured: bool, room: int | None, headers: bool
) -> None:
    texts = [[_printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(texts[0]))]
    if room is not None:
        _narrow(widths, room)
    for number, row in enumerate(texts):
        cells = [_cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        if coloured:
            alarming = [isinstance(cell, Alarm) for cell in rows[number]]
            cells = [
                f"{_RED}{cell}{_PLAIN}" if alarm else cell
                for cell, alarm in zip(cells, alarming, strict=True)
            ]
        line = _GAP.join(cells).rstrip()
        print(f"{_BOLD}{line}{_PLAIN}" if coloured and headers and not number else line)


def _narrow(widths: list[int], room: int) -> None:
    """Take from the widest columns what a line has too much, as far as they go."""
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    while over > 0:
        widest = max(widths)
        if widest <= _NARROWEST:
            return  # more columns than the terminal has room for: its lines wrap
        next_widest = max((each for each in widths if each < widest), default=_NARROWEST)
        column = widths.index(widest)
        step = min(over, max(1, widest - max(next_widest, _NARROWEST)))
        widths[column] -= step
        over -= step


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + _CUT


def _printable(text: str) -> str:
    """Return a text without a terminal's control codes: any user may have chosen its names."""
    if text.isprintable():  # most are: a table of 10 000 pods has a million characters
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
