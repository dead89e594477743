"""Which files a process maps.

A name alone is no proof, nor is an inode: another filesystem has the same numbers. The kernel names
a filesystem in maps by its superblock's device, which btrfs and overlayfs don't tell by stat(2); so
a file that we look for is mapped here, too, and found in our own maps.
Source: proc(5), /proc/PID/maps; show_map_vma() in the kernel's fs/proc/task_mmu.c.
"""

import contextlib
import itertools
import mmap
import os
import pathlib
from collections.abc import Collection, Iterator
from typing import Final

from gpustack.wire.files import regular_file

MappedFile = tuple[bytes, int, str]
"""A file's device as maps has it (``b"fd:01"``), its inode, and the last part of its name."""

# The kernel lets a process have 65 530 mappings (vm.max_map_count), of 75 bytes without a name.
_MAPS_BYTES: Final = 16 << 20
# A process whose first thread has ended shows its maps by any other. So many that have ended are
# there only where a tracer leaves them (ptrace(2)), which may be the tenant itself.
_THREADS: Final = 1024


def of_process(
    pid: int, names: Collection[str], *, proc: pathlib.Path = pathlib.Path("/proc")
) -> frozenset[MappedFile] | None:
    """Return the files with one of these names that a process maps; None where it has ended.

    A tenant chooses how long the list is: it is read line by line, and not beyond 16 MiB. And how
    many threads there are: none of the files is found where the first of them have all ended.

    Args:
        pid: the process, as the reader's PID namespace numbers it.
        names: the last part of a file's name.
        proc: the proc file system of the same PID namespace.
    """
    folder = proc / str(pid)
    endings = tuple(f"/{name}".encode() for name in names)
    looked_at = 0
    for maps in itertools.chain((folder / "maps",), _threads(folder / "task")):
        looked_at += 1
        try:
            found = _read(maps, endings)
        except OSError:
            continue
        if found is not None:
            return found
    return frozenset() if looked_at > _THREADS else None


def of_file(path: pathlib.Path) -> MappedFile | None:
    """Return how the maps of a process name a file.

    None where it isn't there, is empty, or is under a tenant's lease, whose end is not waited for.
    """
    try:
        path = path.resolve()  # maps have no symbolic links
        with (
            regular_file.open_at_once(path) as file,
            mmap.mmap(file.fileno(), 1, prot=mmap.PROT_READ),
        ):
            inode = os.fstat(file.fileno()).st_ino
            own = _read(pathlib.Path("/proc/self/maps"), (os.fsencode(path),)) or frozenset()
    except (OSError, ValueError):  # ValueError: an empty file can't be mapped
        return None
    return next((each for each in own if each[1] == inode), None)


def _threads(tasks: pathlib.Path) -> Iterator[pathlib.Path]:
    with contextlib.suppress(OSError), os.scandir(tasks) as found:
        for thread in itertools.islice(found, _THREADS):
            yield pathlib.Path(thread.path) / "maps"


def _read(maps: pathlib.Path, endings: tuple[bytes, ...]) -> frozenset[MappedFile] | None:
    """Return what maps says of files with these ends of their names; None where it is empty."""
    found: set[MappedFile] = set()
    size_bytes = 0
    with maps.open("rb") as lines:
        # Of all characters that may end a line, the kernel escapes only line feeds.
        for line in lines:
            size_bytes += len(line)
            if size_bytes > _MAPS_BYTES:
                break
            if line.rstrip(b"\n").endswith(endings):
                _, _, _, device, inode, name = line.split(maxsplit=5)
                found.add((device, int(inode), os.fsdecode(name).rpartition("/")[2].strip()))
    return frozenset(found) if size_bytes else None
