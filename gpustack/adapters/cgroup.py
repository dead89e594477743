"""The container of a process, read from /proc: the same on cgroup v1, hybrid and v2.

The last path element of every line of /proc/PID/cgroup names the container, plain with the
cgroupfs driver (`.../pod<UID>/<id>`) and as `<runtime>-<id>.scope` with the systemd driver.
"""

import os
import pathlib
import re

# 64 hex digits: containerd, CRI-O and Docker all name containers so.
_CONTAINER_ID = re.compile(r"(?:^|[-/])([0-9a-f]{64})(?:\.scope)?(?:/|$)")


def container_of(pid: int, *, proc: pathlib.Path = pathlib.Path("/proc")) -> str | None:
    """Return the ID of the container that a process runs in; None on the host or when it is gone.

    Args:
        pid: the process, as the reader's PID namespace numbers it.
        proc: the proc file system of the same PID namespace.
    """
    try:
        text = (proc / str(pid) / "cgroup").read_bytes()
    except OSError:
        return None  # it ended meanwhile
    # Users who may make cgroups name them, with any byte but a line feed.
    for line in text.split(b"\n"):
        path = os.fsdecode(line.split(b":", 2)[-1])
        if (match := _CONTAINER_ID.search(path)) is not None:
            return match.group(1)
    return None
