"""The log of both daemons: a record is one line with one priority for any text in it."""

import subprocess
import sys

import pytest

_PROGRAM = """
import logging, sys
from gpustack.adapters.systemd import set_up_log
set_up_log("info", journal={journal})
logger = logging.getLogger("gpustack.agent")
name = {name}
logger.debug("not said")
logger.warning("process %s uses the GPU", name)
try:
    raise RuntimeError(name)
except RuntimeError:
    logger.exception("a thread has failed")
"""


def _lines(name: str, *, journal: bool) -> list[bytes]:
    program = _PROGRAM.format(journal=journal, name=ascii(name))
    done = subprocess.run(
        [sys.executable, "-"], input=program.encode(), check=True, capture_output=True
    )
    assert done.stderr.endswith(b"\n")
    return done.stderr[:-1].split(b"\n")


@pytest.mark.parametrize(
    "name",
    [
        "python\n<3>kernel: panic",
        "a\r\n<0>b",
        "a\x0b\x1b[2J\x85\u2028<1>b",
        "\ud800",
        "x" * 200_000,
    ],
    ids=["line", "return", "others", "surrogate", "long"],
)
def test_a_hostile_name_begins_no_line_of_the_journal(name: str) -> None:
    warning, failure = _lines(name, journal=True)
    assert warning.startswith(b"<4>gpustack.agent: process ")
    assert warning.endswith(b" uses the GPU")
    assert failure.startswith(rb"<3>gpustack.agent: a thread has failed\nTraceback")
    # Beyond 48 KiB journald would begin another line.
    assert max(len(warning), len(failure)) < 48 * 1024
    assert warning.decode().isprintable()


def test_on_a_terminal_a_line_has_its_time_and_level() -> None:
    warning, _ = _lines("a\nb", journal=False)
    assert rb" WARNING gpustack.agent: process a\nb uses the GPU" in warning
    assert not warning.startswith(b"<")
