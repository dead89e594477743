"""A program's own wall clock, which a test sets forward and back while the program runs."""

import mmap
import pathlib
import struct
import subprocess
import sys
import time

from tests.testbed import paths

_SOURCE = pathlib.Path(__file__).with_suffix(".c")
_DIFFERENCE = struct.Struct("=q")


class WallClock:
    """The clock of every program that is started with ``environment``.

    Attributes:
        environment: what those programs are started with, beside the test's own environment.
        ahead_seconds: how far it is ahead of this machine's.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        """Build what has to be preloaded into ``folder``, and start on time."""
        self.ahead_seconds = 0.0
        file = folder / "wall-clock"
        file.write_bytes(_DIFFERENCE.pack(0))
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), _DIFFERENCE.size)
        self.environment = {
            "LD_PRELOAD": str(_built(folder)),
            "GPUSTACK_WALL_CLOCK": str(file),
        }

    def set_ahead(self, seconds: float) -> None:
        """Set it to so many seconds after this machine's."""
        self.ahead_seconds = seconds
        _DIFFERENCE.pack_into(self._page, 0, int(seconds * 1e9))

    def at_ns(self, monotonic: float) -> int:
        """Return what it says at a moment of this machine's monotonic clock, Unix nanoseconds."""
        since = time.time() - time.monotonic()
        return int((monotonic + since + self.ahead_seconds) * 1e9)


def _built(folder: pathlib.Path) -> pathlib.Path:
    library = folder / "wall_clock.so"
    zig = [sys.executable, "-m", "ziglang", "cc", "-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*zig, "-O2", "-fPIC", "-shared", "-o", str(library), str(_SOURCE)],
        check=True,
        env={
            "PATH": "/usr/bin:/bin",
            "ZIG_GLOBAL_CACHE_DIR": str(paths.cache("zig")),
            "ZIG_LOCAL_CACHE_DIR": str(paths.cache("zig")),
        },
    )
    return library
