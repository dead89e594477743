"""Lists of things in five forms: `table`, `wide`, `json`, `yaml`, `name`; and their changes.

What tenants and nodes wrote stands in the rows as it is: the table writes no control character.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from gpustack.cli.output import printing
from gpustack.wire.one_line import one_line

FORMS: Final = ("table", "wide", "json", "yaml", "name")
ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
_EVENT: Final = "EVENT"
_LONGEST_NAME: Final = 512  # characters; a namespace and a pod's name have 317 at most
# libyaml writes 10 000 pods in a second, PyYAML's own writer in ten.
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedItem:
    """One thing of a list.

    Attributes:
        key: what no other thing of the list has.
        name: the word by which other commands take it.
        value: its fields for programs.
        rows: its lines of the table, most often one.
        wide: what `wide` adds to each of these lines.
    """

    key: str
    name: str
    value: Mapping[str, Any]
    rows: Sequence[tuple[object, ...]]
    wide: Sequence[tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list, its columns and its sums.

    Attributes:
        kind: what its things are, in the plural: the key of the JSON.
        head: the columns of `table`.
        wide_head: those that `wide` adds.
        sums: totals, for programs.
        sums_rows: the same as a table with its heading.
    """

    kind: str
    head: tuple[str, ...]
    wide_head: tuple[str, ...]
    items: Sequence[ListedItem]
    sums: Mapping[str, Any]
    sums_rows: Sequence[tuple[object, ...]]


def show(listing: Listing, form: str, *, headers: bool = True) -> None:
    """Print a list; sums and headings of a table only where `headers` says so."""
    value = {listing.kind: [dict(each.value) for each in listing.items], "sums": listing.sums}
    if form == "json":
        printing.show("json", [], value)
    elif form == "yaml":
        yaml.dump(value, sys.stdout, Dumper=_DUMPER, sort_keys=False)
    elif form == "name":
        _names(listing.items)
    else:
        tables = [_rows(listing, form, headers=headers)]
        if headers and listing.items:
            tables.append(list(listing.sums_rows))
        printing.show_tables([rows for rows in tables if rows], headers=headers)
        if not listing.items:
            printing.tell(f"no {listing.kind} found")


def show_changes(
    listing: Listing, changes: Sequence[tuple[str, ListedItem]], form: str, *, headers: bool
) -> None:
    """Print what has changed: an event and the thing, as `kubectl get -w --output-watch-events`."""
    if form in {"json", "yaml"}:
        for event, item in changes:
            value = {"type": event, "object": dict(item.value)}
            if form == "json":
                print(json.dumps(value))
            else:
                print("---")
                yaml.dump(value, sys.stdout, Dumper=_DUMPER, sort_keys=False)
    elif form == "name":
        _names(item for _, item in changes)
    else:
        rows = [
            (event, *row) for event, item in changes for row in _lines(item, wide=form == "wide")
        ]
        head = (_EVENT, *_head(listing, form))
        if headers or rows:
            printing.show_tables([[head, *rows] if headers else rows], headers=headers)
    sys.stdout.flush()


def changes_between(
    before: Mapping[str, ListedItem], after: Mapping[str, ListedItem]
) -> Iterator[tuple[str, ListedItem]]:
    """Yield what differs between two lists by key; an age that has grown is no difference."""
    for key, item in before.items():
        if key not in after:
            yield DELETED, item
    for key, item in after.items():
        if key not in before:
            yield ADDED, item
        elif before[key].value != item.value:
            yield MODIFIED, item


def _names(items: Iterable[ListedItem]) -> None:
    for item in items:
        print(one_line(item.name, _LONGEST_NAME))


def _head(listing: Listing, form: str) -> tuple[str, ...]:
    return (*listing.head, *(listing.wide_head if form == "wide" else ()))


def _rows(listing: Listing, form: str, *, headers: bool) -> list[tuple[object, ...]]:
    rows = [row for item in listing.items for row in _lines(item, wide=form == "wide")]
    return [_head(listing, form), *rows] if headers else rows


def _lines(item: ListedItem, *, wide: bool) -> Iterator[tuple[object, ...]]:
    for row, more in zip(item.rows, item.wide, strict=True):
        yield (*row, *more) if wide else row
