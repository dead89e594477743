"""``gpustack top`` on a real terminal: it refreshes, and keeps to the screen."""

import fcntl
import itertools
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from tests.cli.top.agents import agent, metrics

_LINES, _COLUMNS = 12, 90


def screens(url: str, *words: str, term: str = "xterm") -> str:
    """Return what a terminal of 12 lines gets."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    kept = {name: each for name, each in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    command = [sys.executable, "-m", "gpustack.cli.main", "top", "--agent", url, *words]
    environment = {**kept, "NO_COLOR": "1", "TERM": term}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 4096):
            text += piece
    except OSError:  # Linux answers EIO once the other side is closed
        pass
    os.close(ours)
    process.wait()
    return text.decode()


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
