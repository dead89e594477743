"""The container of a process, and the processes of its container, by their cgroups.

The last path element of every line of /proc/PID/cgroup names the container, plain with the
cgroupfs driver (`.../pod<UID>/<id>`) and as `<runtime>-<id>.scope` with the systemd driver: the
same on cgroup v1, hybrid and v2.
"""

import contextlib
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Final

_PROC: Final = pathlib.Path("/proc")
_CGROUPS: Final = pathlib.Path("/sys/fs/cgroup")

# 64 hex digits: containerd, CRI-O and Docker all name containers so. `crio-conmon-<id>.scope` is
# not the container: the monitor of CRI-O runs there, a process of the host.
_CONTAINER_ID: Final = re.compile(
    r"(?:^|/)(?:[^/]*-)?(?<!-conmon-)([0-9a-f]{64})(?:\.scope)?(?:/|$)"
)
HIDDEN: Final = "?"
"""In the place of a container: the kernel doesn't say, as of a path that is longer than a page.

Whoever may make cgroups, in namespaces of its own for one, makes them so deep (proc_cgroup_show in
kernel/cgroup/cgroup.c). Nor does cgroup v1 of a process whose first threads have all ended.
"""

_MEMORY: Final = "memory"  # cgroup v1: the hierarchy that every container has a cgroup in
_FLAGS: Final = 9 - 3  # of /proc/PID/stat, after the name, which may contain spaces and brackets
_PF_EXITING: Final = 0x4  # include/linux/sched.h
_THREADS: Final = 8  # any number that have ended stay while a tracer leaves them there (ptrace(2))
_MOST_CGROUPS: Final = 256  # a container that may make cgroups of its own makes any number


def container_of(pid: int, *, proc: pathlib.Path = _PROC) -> str | None:
    """Return the ID of the container that a process runs in, or `HIDDEN`.

    None on the host or when it is gone.

    Args:
        pid: the process, as the reader's PID namespace numbers it.
        proc: the proc file system of the same PID namespace.
    """
    try:
        return _container_in(_lines(pid, proc))
    except OSError:
        return HIDDEN


def processes_beside(
    pid: int, *, proc: pathlib.Path = _PROC, cgroups: pathlib.Path = _CGROUPS
) -> frozenset[int]:
    """Return the processes of the container of a process; none where it is in none, or gone.

    Args:
        pid: the process, as the reader's PID namespace numbers it.
        proc: the proc file system of the same PID namespace.
        cgroups: where cgroup v2, or the hierarchies of v1, are mounted.
    """
    try:
        own = dict(_lines(pid, proc))
    except OSError:
        return frozenset()
    by_controller = {name: path for names, path in own.items() for name in names.split(",")}
    path = by_controller.get(_MEMORY, own.get(""))
    match = None if path is None else _CONTAINER_ID.search(path)
    if path is None or match is None:
        return frozenset()
    root = cgroups / _MEMORY if _MEMORY in by_controller else cgroups
    top = root / path[: match.end()].strip("/")
    return frozenset(_members(top))


def _lines(pid: int, proc: pathlib.Path) -> Sequence[tuple[str, str]]:
    """Return controllers and path of each line of a process: empty controllers are those of v2.

    Raises:
        OSError: the process is there, and its cgroups can't be read.
    """
    folder = proc / str(pid)
    try:
        lines = _read(folder)
        if _container_in(lines) is None:
            return _first_living(folder / "task") or lines
    except (FileNotFoundError, ProcessLookupError):
        return ()  # it ended meanwhile
    return lines


def _first_living(tasks: pathlib.Path) -> Sequence[tuple[str, str]]:
    """Return the lines of a process's first thread that hasn't ended; none where all have.

    Where the main thread has ended and others go on, cgroup v1 says "/" in place of its container
    (PF_EXITING in proc_cgroup_show), and of the others where they are.

    Raises:
        OSError: more threads than a few have ended, and are still there.
    """
    with os.scandir(tasks) as threads:
        for number, thread in enumerate(threads):
            if number == _THREADS:
                raise OSError(f"the first {number} threads in {tasks} have ended")
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                lines = _read(pathlib.Path(thread.path))
                # In this order: a thread that ends in between is not believed.
                if not _is_exiting(thread.path):
                    return lines
    return ()


def _is_exiting(thread: str) -> bool:
    try:
        with open(f"{thread}/stat", "rb") as file:
            return bool(int(file.read().rpartition(b")")[2].split()[_FLAGS]) & _PF_EXITING)
    except (OSError, IndexError):
        return True  # it has ended


def _read(folder: pathlib.Path) -> Sequence[tuple[str, str]]:
    lines = []
    # Users who may make cgroups name them, with any byte but a line feed.
    for line in (folder / "cgroup").read_bytes().split(b"\n"):
        _, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        if path:
            lines.append((os.fsdecode(controllers), os.fsdecode(path)))
    return lines


def _container_in(lines: Sequence[tuple[str, str]]) -> str | None:
    found = (_CONTAINER_ID.search(path) for _, path in lines)
    return next((match.group(1) for match in found if match is not None), None)


def _members(top: pathlib.Path) -> Iterator[int]:
    for count, (folder, _, files) in enumerate(os.walk(top)):
        if count >= _MOST_CGROUPS:
            return
        if "cgroup.procs" in files:
            try:
                text = pathlib.Path(folder, "cgroup.procs").read_text("ascii")
            except OSError:
                continue  # the cgroup is gone, or (v2) a threaded one
            yield from map(int, text.split())
