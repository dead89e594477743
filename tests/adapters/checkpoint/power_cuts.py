"""What a crash may leave of a program's file operations in one folder.

`Disk` records a program's calls, or refuses some. `files_after` gives each content of a file that a
crash after some of the calls may leave, by rules that ext4 and XFS keep. What fsync has returned
for is there. The writes to a file since then are not there, or all but the last are, and of that
one all, the first bytes, its length in zeros, or zeros for its first half. Of the changes of the
folder since its fsync the first few are there. A process that is killed leaves the first bytes of
its last write, too.
"""

import contextlib
import dataclasses
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that changes the disk, or that waits until a change is there.

    Attributes:
        name: `create`, `write`, `truncate`, `sync`, `rename`, `unlink` or `sync folder`.
        inode: the file; 0 of `unlink`.
        path: of `create` and `unlink`, and the new one of `rename`.
        data: of `write`, at the end of the file.
        length: of `truncate`.
    """

    name: str
    inode: int = 0
    path: str = ""
    data: bytes = b""
    length: int = 0


class Disk:
    """Records the calls of a program.

    Args:
        refuses_at: the number of the call that fails, from 0; a write takes a half first.
        stays_full: whether all later calls fail, too.

    Attributes:
        calls: those that were carried out.
        asked: how many there were, with those that failed.
    """

    def __init__(self, *, refuses_at: int = -1, stays_full: bool = False) -> None:
        self.calls: list[Call] = []
        self.asked = 0
        self._refuses_at = refuses_at
        self._stays_full = stays_full

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record this process's calls meanwhile."""
        real_open, real_write, real_replace = os.open, os.write, os.replace

        def open_(path: str, flags: int, mode: int = 0o777) -> int:
            if not flags & os.O_CREAT:
                return real_open(path, flags, mode)
            self._count()
            descriptor = real_open(path, flags, mode)
            self._did(Call(name="create", inode=_inode(descriptor), path=os.fspath(path)))
            return descriptor

        def write(descriptor: int, data: bytes) -> int:
            part = bytes(data)
            if self._refuses_at == self.asked and len(part) > 1:
                part = part[: len(part) // 2]
                self._refuses_at += 1  # the call with the rest
                self.asked += 1
            else:
                self._count()
            self._did(Call(name="write", inode=_inode(descriptor), data=part))
            return real_write(descriptor, part)

        def replace(before: str, path: str) -> None:
            self._count()
            self._did(Call(name="rename", inode=os.stat(before).st_ino, path=os.fspath(path)))
            real_replace(before, path)

        replaced: dict[str, Any] = {"open": open_, "write": write, "replace": replace}
        for name in ("fsync", "ftruncate", "unlink"):
            replaced[name] = self._recorded(name, getattr(os, name))
        with mock.patch.multiple(os, **replaced):
            yield

    def _recorded(self, name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(what: Any, *rest: Any) -> None:
            self._count()
            real(what, *rest)
            if name == "unlink":
                self._did(Call(name=name, path=os.fspath(what)))
            elif name == "ftruncate":
                self._did(Call(name="truncate", inode=_inode(what), length=rest[0]))
            else:
                folder = os.path.isdir(f"/proc/self/fd/{what}")
                self._did(Call(name="sync folder" if folder else "sync", inode=_inode(what)))

        return call

    def _did(self, call: Call) -> None:
        self.calls.append(call)

    def _count(self) -> None:
        number, self.asked = self.asked, self.asked + 1
        if number == self._refuses_at or (self._stays_full and 0 <= self._refuses_at < number):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def files_after(calls: Sequence[Call], path: str) -> Iterator[bytes | None]:
    """Yield each content of a file that a crash after these calls may leave; None for no file."""
    kept: dict[int, bytes] = {}  # by inode: what is there whatever happens
    later: dict[int, list[Call]] = {}  # by inode: writes and cuts since
    name: int | None = None
    names: list[int | None] = []  # the file behind `path` after each change of the folder since
    for call in calls:
        if call.name == "sync folder":
            name, names = names[-1] if names else name, []
        elif call.name == "sync":
            kept[call.inode] = _content(kept.get(call.inode, b""), later.pop(call.inode, []))
        elif call.name in {"write", "truncate"}:
            later.setdefault(call.inode, []).append(call)
        elif call.name == "create":
            kept[call.inode], later[call.inode] = b"", []  # it may be the inode of a file that went
        if call.path == path:
            names.append(None if call.name == "unlink" else call.inode)
    for inode in (name, *names):
        if inode is None:
            yield None
        else:
            yield from _contents(kept.get(inode, b""), later.get(inode, []))


def _contents(kept: bytes, later: Sequence[Call]) -> Iterator[bytes]:
    yield _content(kept, later)
    if not later:
        return
    yield kept
    before = _content(kept, later[:-1])
    data = later[-1].data
    for length in range(len(data)):
        yield before + data[:length]
    yield before + bytes(len(data))
    half = len(data) // 2
    yield before + bytes(half) + data[half:]


def _content(kept: bytes, calls: Sequence[Call]) -> bytes:
    for call in calls:
        kept = kept + call.data if call.name == "write" else kept[: call.length]
    return kept


def _inode(descriptor: int) -> int:
    return os.fstat(descriptor).st_ino
