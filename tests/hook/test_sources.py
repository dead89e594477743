"""The layout of ``hook/src``: a header for each source, functions with bodies, in folders."""

import collections
import pathlib
import re
from collections.abc import Iterator

from tests.hook.container import HOOK

SRC = HOOK / "src"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
# A function at the left margin: a type, a name, parameters, and a body or a semicolon.
FUNCTION = re.compile(
    r"^(?!static|typedef)[a-z][\w \t*]*?[ *](\w+)\(([^;{}]*)\)\s*([;{])", re.MULTILINE
)
RETURNING = re.compile(r"#[ \t]*define[ \t]+(\w+)(?:[^\n]*\\\n)*?[^\n]*\breturn\b")
# One expansion for each line of symbols.def.
TABLES = {"ENTRY"}


def sources() -> list[pathlib.Path]:
    return sorted(SRC.rglob("*.c"))


def functions(path: pathlib.Path, ending: str) -> Iterator[str]:
    """Yield functions at the left margin that end so: ``;`` declares, ``{`` defines."""
    text = DIRECTIVE.sub("", COMMENT.sub("", path.read_text()))
    for name, _, found in FUNCTION.findall(text):
        if found == ending:
            yield name


def declared() -> dict[str, list[pathlib.Path]]:
    """Return the headers that declare each function."""
    headers = collections.defaultdict(list)
    for path in sorted(SRC.rglob("*.h")):
        for name in functions(path, ";"):
            headers[name].append(path)
    return headers


def test_each_source_has_a_header_of_its_name() -> None:
    assert [path for path in sources() if not path.with_suffix(".h").exists()] == []
    first = {path: re.search(r'#include "(.*)"', path.read_text()) for path in sources()}
    assert {path: found and found[1] for path, found in first.items()} == {
        path: path.with_suffix(".h").relative_to(SRC).as_posix() for path in sources()
    }


def test_functions_are_declared_in_the_header_of_their_source() -> None:
    expected = {
        name: [path.with_suffix(".h")]
        for path in sources()
        for name in functions(path, "{")
        if not name.startswith("gate_")  # declared from symbols.def
    }
    assert len(expected) > 100
    assert declared() == expected


def test_no_source_declares_functions_of_another() -> None:
    assert {path: list(functions(path, ";")) for path in sources()} == {
        path: [] for path in sources()
    }


def test_bodies_of_functions_are_not_macros() -> None:
    returning = {
        name for path in SRC.rglob("*.[ch]") for name in RETURNING.findall(path.read_text())
    }
    assert returning == TABLES


def test_every_source_lies_in_a_folder_of_its_part() -> None:
    assert [*SRC.glob("*.[chS]")] == []
