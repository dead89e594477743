"""A mount namespace of a test's own, with gpustack-mount in it."""

import contextlib
import ctypes
import os
import pathlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from gpustack.adapters.mount_helper import MountHelper
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.mounts.main import serve
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.model.placement import ContainerPlacement
from gpustack.wire.mount_request import FOLDER
from tests.fakes.nvml import card

UID = "6f1a2b3c-0000-4000-8000-123456789abc"
SHARE = ContainerPlacement(
    name="c0", index=0, minors=(1,), uuids=(card(1).uuid,), cores=30, memory_units=4
)

_T = TypeVar("_T")

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS of <sched.h>
_RECURSIVE, _PRIVATE = 1 << 14, 1 << 18  # MS_REC and MS_PRIVATE of <sys/mount.h>
_READ_ONLY, _REMOUNT = 1, 32  # MS_RDONLY and MS_REMOUNT


def alone(body: Callable[[], _T]) -> _T:
    """Run a test's body in a thread that has its own mounts; they end with the thread.

    Programs that it starts have these mounts, too.
    """
    failures: list[BaseException] = []
    results: list[_T] = []

    def run() -> None:
        try:
            _check(_LIBC.unshare(_NEW_MOUNTS))
            _check(_LIBC.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None))
            results.append(body())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for each in failures:
        raise each
    return results[0]


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextlib.contextmanager
def helper(state: pathlib.Path, *, start_seconds: float = 0.0) -> Iterator[MountHelper]:
    """Run gpustack-mount in the caller's mounts, as a thread.

    Args:
        state: where the containers' folders lie, and its socket.
        start_seconds: how long its client waits for it afterwards.
    """
    path = state / "mount.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=_serve, args=(listener, state))
        thread.start()
        try:
            yield MountHelper(path, start_seconds=start_seconds)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            path.unlink()


def _serve(listener: socket.socket, state: pathlib.Path) -> None:
    with contextlib.suppress(OSError):  # the listener is shut down
        serve(listener, state)


def on_a_tmpfs(state: pathlib.Path, body: Callable[[LimitsFiles, pathlib.Path], None]) -> None:
    """Run a test's body, in mounts of its own, with a share's files and their folder."""

    def with_helper() -> None:
        held = HeldFiles(DescriptorStore())
        with helper(state) as mounting:
            files = LimitsFiles(
                state / FOLDER,
                context_bytes=0,
                may_run=lambda *_: False,
                held=held,
                mounts=ShareMounts(mounting),
            )
            body(files, files.prepare(UID, SHARE, None))
        held.close()

    alone(with_helper)


def mount_tmpfs(folder: pathlib.Path, size_bytes: int) -> None:
    """Mount an empty file system in the caller's mounts."""
    options = f"size={size_bytes}".encode()
    _check(_LIBC.mount(b"none", str(folder).encode(), b"tmpfs", 0, options))


def remount(folder: pathlib.Path, *, read_only: bool) -> None:
    """Let a file system take no more writes, or take them again."""
    flags = _REMOUNT | (_READ_ONLY if read_only else 0)
    _check(_LIBC.mount(b"none", str(folder).encode(), None, flags, None))
