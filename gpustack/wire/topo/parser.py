"""The text of `nvidia-smi topo -m`, of any driver generation, and back to the model's node.

A text has a heading (the devices, then `CPU Affinity`, `NUMA Affinity`, `GPU NUMA ID`, as many of
them as the driver knows), one row a device, and a legend. Cells stand in columns of tabs, or of
blanks in a pasted text; the heading is underlined by escape codes. Other devices and lines are
passed over: NICs (`mlx5_0`, later `NIC0`), MIG devices, lines before the heading and after the
rows. The rows of NICs may be left out, all of them (`| grep GPU`). A text with a doubtful matrix
is refused, with the number of the line and the devices of row and column.

The text numbers cards as NVML does, by PCI address; that number is taken for the minor, which it
is on every host whose driver made its device nodes in that order. UUIDs aren't in the text: the
cards get made-up ones that begin with `TOPO-`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpustack.model.errors import GpustackError
from gpustack.model.node import Card, Node, arrange
from gpustack.model.topology.link_level import BadLinks, Level, Links, parse_link
from gpustack.wire.topo import affinity_columns

MOST_CARDS: Final = 256  # as many as the node annotation holds

# ECMA-48 control sequences (colours, underline), the other two-byte escapes, and OSC (titles);
# then what is left of colours where copying lost the escape (`[4m`), or a pager shows it (`^[[4m`).
_ESCAPES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])|(?:\^\[)?\[[0-9;]*[mK]"
)
_QUOTED: Final = re.compile(r"(?:> ?)+")  # in mails
_GPU: Final = re.compile(r"GPU(0|[1-9][0-9]{0,5})")  # a minor has 20 bits (Linux, MINORBITS)
# Terminals that wrap a long line lose the blank between two cells: NIC8NIC9, NODEPXB.
_GLUED_NAMES: Final = re.compile(r"(?:(?:GPU|NIC|MIG)[0-9]+){2,}")
_NAMES: Final = re.compile(r"(?:GPU|NIC|MIG)[0-9]+")
_GLUED_CELLS: Final = re.compile(r"(?:NODE|SYS|SOC|PHB|PXB|PIX|NV[1-9][0-9]?){2,}")
_CELLS: Final = re.compile(r"NODE|SYS|SOC|PHB|PXB|PIX|NV[1-9][0-9]?")
_P2P_CELLS: Final = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
_GIVE_ALL: Final = "give all that `nvidia-smi topo -m` prints"


class BadTopoText(GpustackError, ValueError):
    """A text that shows no whole matrix. The message begins with the place, `line 7: `."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heading:
    line: int
    devices: tuple[str, ...]
    affinity: tuple[affinity_columns.Column, ...]

    @property
    def gpus(self) -> list[int]:
        """The positions of the cards among the devices."""
        return [at for at, name in enumerate(self.devices) if _GPU.fullmatch(name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    line: int
    name: str
    cells: tuple[str, ...]
    affinity: affinity_columns.Cells


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matrix:
    """What a text says: the cards' names, their links and NUMA nodes, and where its rows end."""

    cards: tuple[str, ...]
    links: Links
    numas: tuple[int | None, ...]
    last_line: int


def parse(data: bytes, *, name: str = "", model: str = "", memory_bytes: int = 0) -> Node:
    """Read a text into a node.

    Args:
        data: the text; UTF-8, or UTF-16 with its mark, as PowerShell writes it.
        name: the node's name.
        model: the full name of every card, which the text doesn't say.
        memory_bytes: the memory of every card, likewise; 0 is unknown.

    Raises:
        BadTopoText: no heading, a row or a cell that is missing or too many, an unknown token,
            or two rows that contradict each other.
    """
    lines = _lines(data)
    matrix = _matrix(lines, _heading(lines))
    _check_alone(lines, matrix)
    cards = tuple(
        Card(
            minor=(minor := int(card.removeprefix("GPU"))),
            uuid=f"TOPO-{minor:08x}",
            model=model,
            memory_bytes=memory_bytes,
            numa=numa,
        )
        for card, numa in zip(matrix.cards, matrix.numas, strict=True)
    )
    arranged, links = arrange(cards, matrix.links)
    return Node(name=name, cards=arranged, links=links)


def _lines(data: bytes) -> list[str]:
    wide = data[:2] in {b"\xff\xfe", b"\xfe\xff"}
    text = data.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    plain = (_ESCAPES.sub("", line) for line in re.split(r"\r*\n|\r", text))
    return [line[quoted.end() :] if (quoted := _QUOTED.match(line)) else line for line in plain]


def _matrix(lines: Sequence[str], heading: _Heading) -> _Matrix:
    rows = _rows(lines, heading)
    cards = [heading.devices[at] for at in heading.gpus]
    tokens = [[_token(rows[card], heading, at) for at in heading.gpus] for card in cards]
    _check(rows, cards, tokens)
    return _Matrix(
        cards=tuple(cards),
        links=tuple(tuple(row) for row in tokens),
        numas=tuple(affinity_columns.numa_nodes([rows[card].affinity for card in cards])),
        last_line=max(row.line for row in rows.values()),
    )


def _check_alone(lines: Sequence[str], first: _Matrix) -> None:
    """Refuse texts of two machines; the same matrix twice, or one of `topo -p2p`, may follow."""
    end = first.last_line
    while True:
        try:
            heading = _heading(lines, end)
        except BadTopoText:
            return
        try:
            found = _matrix(lines, heading)
        except BadTopoText:
            end = heading.line
            continue
        if (found.cards, found.links) != (first.cards, first.links):
            raise BadTopoText(
                f"line {heading.line}: a second matrix begins here; give one at a time"
            )
        end = found.last_line


def _heading(lines: Sequence[str], start: int = 0) -> _Heading:
    for at in range(start, len(lines)):  # no slices: it is asked again behind every matrix
        line = lines[at]
        columns = affinity_columns.columns(line)
        names = line[: columns[0].start] if columns else line
        devices = tuple(_split(names, _GLUED_NAMES, _NAMES))
        if devices and _GPU.fullmatch(devices[0]) and not any(map(_is_token, devices)):
            found = _Heading(line=at + 1, devices=devices, affinity=columns)
            _check_heading(found)
            return found
    raise BadTopoText(
        f"line {len(lines)}: the text ends without a heading (GPU0, GPU1, ...); {_GIVE_ALL}"
    )


def _check_heading(heading: _Heading) -> None:
    for at, device in enumerate(heading.devices):
        if device in heading.devices[:at]:
            raise BadTopoText(f"line {heading.line}: {device} has two columns")
        if device.startswith("GPU") and not _GPU.fullmatch(device):
            raise BadTopoText(f"line {heading.line}: {device!r} is not the name of a card")
    cards = len(heading.gpus)
    if cards > MOST_CARDS:
        raise BadTopoText(f"line {heading.line}: {cards} cards; at most {MOST_CARDS} can be")


def _rows(lines: Sequence[str], heading: _Heading) -> dict[str, _Row]:
    """Return the rows of all devices by name, or those of all cards.

    Where only some NICs have a row, the text is cut off, and the last row before the cut is
    unreliable.
    """
    rows: dict[str, _Row] = {}
    for number in range(heading.line + 1, len(lines) + 1):
        line = lines[number - 1]
        name = next(iter(line.split()), "")
        if not name or (name.startswith("MIG") and name not in heading.devices):
            continue
        if _ended(heading, rows, line):
            break
        _check_name(number, name, heading, rows)
        rows[name] = _row(number, line, heading)
        _check_width(rows[name], heading)
    missing = _missing(heading, rows)
    if missing and not _only_cards(heading, rows):
        raise BadTopoText(
            f"line {len(lines)}: the text is cut off: no row of {', '.join(missing)}, "
            f"which the heading in line {heading.line} names; {_GIVE_ALL}"
        )
    _check_end(list(rows.values()), len(lines))
    return rows


def _ended(heading: _Heading, rows: Mapping[str, _Row], line: str) -> bool:
    """Say whether `line` comes after the last row. One more row of a card is still a row."""
    if _missing(heading, rows) and not _only_cards(heading, rows):
        return False
    name, *rest = line.split()
    due = any(device.startswith(name) for device in _missing(heading, rows))
    return not due and not (_GPU.fullmatch(name) and rest and _is_token(rest[0]))


def _only_cards(heading: _Heading, rows: Mapping[str, _Row]) -> bool:
    return set(rows) == {heading.devices[at] for at in heading.gpus}


def _missing(heading: _Heading, rows: Mapping[str, _Row]) -> list[str]:
    return [name for name in heading.devices if name not in rows]


def _check_name(number: int, name: str, heading: _Heading, rows: Mapping[str, _Row]) -> None:
    if name in rows:
        raise BadTopoText(f"line {number}: a second row of {name}")
    if name not in heading.devices:
        missing = _missing(heading, rows)
        place = f"line {number}: the row {name!r}"
        if not missing:
            raise BadTopoText(f"{place} has no column: the matrix is not square")
        said = f"where the row of {missing[0]} should be"
        raise BadTopoText(f"{place} {said}: the text is cut off, or its matrix is not square")


def _row(number: int, line: str, heading: _Heading) -> _Row:
    words = list(_split(line, _GLUED_CELLS, _CELLS))
    cells = tuple(words[1 : len(heading.devices) + 1])
    rest = affinity_columns.cells(line, len(words) - 1 - len(cells), heading.affinity)
    return _Row(line=number, name=words[0], cells=cells, affinity=rest)


def _split(line: str, glued: re.Pattern[str], part: re.Pattern[str]) -> Iterator[str]:
    for word in affinity_columns.words(line):
        yield from part.findall(word) if glued.fullmatch(word) else (word,)


def _is_token(word: str) -> bool:
    try:
        parse_link(word)
    except BadLinks:
        return False
    return True


def _check_width(row: _Row, heading: _Heading) -> None:
    wanted, found = len(heading.devices), len(row.cells)
    if found < wanted:
        raise BadTopoText(
            f"line {row.line}: the row of {row.name} is cut off: {found} of {wanted} cells; "
            f"{_GIVE_ALL}"
        )
    extra = [word for word in row.affinity.words if _is_token(word)]
    if extra:
        raise BadTopoText(
            f"line {row.line}: the row of {row.name} has {extra[0]!r} after its {wanted} cells: "
            "the matrix is not square"
        )


def _check_end(rows: Sequence[_Row], last_line: int) -> None:
    """A card's row without a line's end may have lost its affinity, which changes what it says."""
    last = rows[-1]
    others = [len(row.affinity.words) for row in rows[:-1] if _GPU.fullmatch(row.name)]
    short = len(last.affinity.words) < min(others, default=0)
    if last.line == last_line and _GPU.fullmatch(last.name) and short:
        raise BadTopoText(
            f"line {last.line}: the row of {last.name} is cut off in its affinity; {_GIVE_ALL}"
        )


def _token(row: _Row, heading: _Heading, at: int) -> str:
    try:
        return parse_link(row.cells[at]).token
    except BadLinks as error:
        place = f"line {row.line}: {row.name} to {heading.devices[at]}"
        other = row.cells[at] in _P2P_CELLS
        said = f"{error}; this is of `topo -p2p`, {_GIVE_ALL}" if other else str(error)
        raise BadTopoText(f"{place}: {said}") from None


def _check(rows: Mapping[str, _Row], cards: Sequence[str], tokens: Sequence[Sequence[str]]) -> None:
    for a, one in enumerate(cards):
        for b, two in enumerate(cards):
            token, back = tokens[a][b], tokens[b][a]
            place = f"line {rows[one].line}: {one} to {two} is {token!r}"
            if (a == b) != (parse_link(token).level is Level.SELF):
                raise BadTopoText(f"{place}; X stands on the diagonal and nowhere else")
            if b < a and back != token:
                said = f"but line {rows[two].line} says {back!r}"
                raise BadTopoText(f"{place}, {said}: the matrix is not symmetric")
