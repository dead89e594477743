"""What a process costs, as the kernel counts it."""

import os
import pathlib
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(pid: int) -> float:
    """Return how much of a process is resident, without the state of the simulated driver."""
    simulated = str(pathlib.Path(f"/proc/{pid}/cwd").readlink() / "lib" / "state")
    kib, counted = 0, True
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            counted = rest[-1] != simulated
        elif first == "Rss:" and counted:
            kib += int(rest[0])
    return kib / 1024
