"""Tables with and without colours, JSON by lines, progress only for people."""

import contextlib
import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpustack.cli.output import printing
from gpustack.cli.output.printing import Alarm

ROWS = [("POD", "WHY"), (Alarm("web"), "no room")]
ESCAPE = "\x1b"


class Terminal(io.StringIO):
    """A screen."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def terminal() -> Iterator[Terminal]:
    screen = Terminal()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        yield screen


@pytest.fixture(autouse=True)
def colours_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_sees_colours_and_the_same_columns() -> None:
    with terminal() as screen:
        printing.show("table", ROWS, {})
    heading, line = screen.getvalue().splitlines()
    assert heading == f"{ESCAPE}[1mPOD  WHY{ESCAPE}[0m"
    assert line == f"{ESCAPE}[31mweb{ESCAPE}[0m  no room"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_an_environment_variable_turns_colours_off(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with terminal() as screen:
        printing.show("table", ROWS, {})
    assert screen.getvalue() == "POD  WHY\nweb  no room\n"


def test_a_file_sees_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    printing.show_all("table", [ROWS, ROWS], {})
    assert capsys.readouterr().out == "POD  WHY\nweb  no room\n\nPOD  WHY\nweb  no room\n"


def test_control_characters_of_a_name_are_replaced_on_a_terminal() -> None:
    with terminal() as screen:
        printing.show("table", [("POD",), (f"{ESCAPE}[2J\r\ud800",)], {})
    assert screen.getvalue().splitlines()[1] == "\ufffd[2J\ufffd\ufffd"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(max_size=3), JSON))
def test_json_reads_back_whatever_it_holds(
    capsys: pytest.CaptureFixture[str], value: dict[str, object]
) -> None:
    capsys.readouterr()
    printing.show("json", [], value)
    assert json.loads(capsys.readouterr().out) == value


def test_json_has_a_line_for_each_entry(capsys: pytest.CaptureFixture[str]) -> None:
    printing.show("json", [], {"pods": [{"a": 1}, {"b": [2]}], "by": {"x": 1}, "none": [], "n": 3})
    assert capsys.readouterr().out.splitlines() == [
        "{",
        '  "pods": [',
        '    {"a": 1},',
        '    {"b": [2]}',
        "  ],",
        '  "by": {',
        '    "x": 1',
        "  },",
        '  "none": [],',
        '  "n": 3',
        "}",
    ]


def test_progress_is_told_in_whole_percents_and_ends_its_line() -> None:
    with terminal() as screen:
        tell = printing.progress("exact")
        assert tell is not None
        for done in range(1, 1001):
            tell(done, 1000)
    shown = screen.getvalue()
    assert shown.startswith("\rexact: 0 % of 1000 pods\rexact: 1 % of 1000 pods")
    assert shown.endswith("\rexact: 100 % of 1000 pods\n")
    assert shown.count("\r") == 101


def test_programs_are_told_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    assert printing.progress("exact") is None
