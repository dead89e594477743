"""Prometheus and promtool of Debian, fetched as other packages are, and not installed."""

import pathlib
import subprocess
from typing import Final

from tests.hook.drivers.debian import Package, unpacked

ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
RULES: Final = tuple(sorted((ROOT / "monitoring/rules").glob("*.yml")))
_PACKAGE: Final = Package(suite="bookworm", name="prometheus")


def program(name: str) -> pathlib.Path:
    """Return the path of a program of the package."""
    return unpacked(_PACKAGE) / "usr/bin" / name


def promtool(*arguments: str | pathlib.Path, text: bytes = b"") -> tuple[int, str]:
    """Run promtool; returns its exit status, and what it said."""
    command = [program("promtool"), *arguments]
    ended = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    return ended.returncode, (ended.stdout + ended.stderr).decode()
