"""``gpustack top`` on a real terminal: it refreshes, and keeps to the screen."""

import itertools

import pytest

from tests.cli import terminal
from tests.cli.top.agents import agent, metrics

_LINES, _COLUMNS = 12, 90


def screens(url: str, *words: str, term: str = "xterm") -> str:
    """Return what a terminal of 12 lines gets."""
    command = ("top", "--agent", url, *words)
    return terminal.run(*command, lines=_LINES, columns=_COLUMNS, TERM=term)[1]


def test_a_terminal_gets_each_answer_in_place_of_the_last() -> None:
    number = itertools.count(1)

    def text() -> str:
        return metrics("gpu1", {"n/p/c": (10.0 * next(number), 1.0, 0.0, 1024.0)})

    with agent(text) as url:
        _, first, second = screens(url, "--count", "2", "--interval", "0.5").split("\x1b[H\x1b[J")
    assert "0.10" in first
    assert "0.20" in second


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_screen_has_no_more_lines_than_the_terminal(term: str) -> None:
    many = {f"n/p{number}/c": (1.0, 1.0, 0.0, 1024.0) for number in range(300)}
    with agent(metrics("gpu1", many)) as url:
        text = screens(url, "--count", "1", term=term)
    assert ("\x1b" in text) == (term == "xterm")
    lines = text.removeprefix("\x1b[H\x1b[J").splitlines()
    assert len(lines) <= _LINES
    assert max(map(len, lines)) <= _COLUMNS
    assert lines[0].endswith("300 pods")
    assert lines[-1] == "and 292 more"
