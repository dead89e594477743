"""A command on a terminal of a size: what the terminal gets, and how the command ends."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios


def run(*words: str, lines: int, columns: int, **environment: str) -> tuple[int, str]:
    """Run gpustack with its output and errors on a terminal; return its status and the text."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    kept = {name: each for name, each in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "gpustack.cli.main", *words],
        stdout=theirs,
        stderr=theirs,
        env={**kept, "NO_COLOR": "1", **environment},
    )
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 4096):
            text += piece
    except OSError:  # Linux answers EIO once the other side is closed
        pass
    os.close(ours)
    return process.wait(), text.decode()
