"""The original's folders of pods, `<root>/<podUID>`, each of which its containers have mounted.

The original makes them for all users to write, and its unit has no umask. So nothing in them is
believed: no link is followed, every folder must be the agent's own user's, and gets the mode that
its readers need. Only root reaches `root`; a container sees its pod's folder, by its mount, and
reads there whatever user it runs as.
"""

import contextlib
import errno
import logging
import os
import pathlib
import re
import socket
import stat
from collections.abc import Iterator
from typing import Final

from gpustack.model.errors import GpustackError
from gpustack.wire.files.vcuda_config import PIDS_CONFIG, VCUDA_CONFIG

logger = logging.getLogger(__name__)

SOCKET: Final = "vcuda.sock"

_ROOT_MODE: Final = 0o700
_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_SOCKET_MODE: Final = 0o666  # to connect takes the right to write, of any user in a container
_BACKLOG: Final = 128  # processes of one pod that register at once, and wait
_FILES: Final = (VCUDA_CONFIG, PIDS_CONFIG)
_NEW: Final = ".new"
_NAME: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.]{0,252}")


class PodFolderError(GpustackError):
    """A folder can't be used; names it and says why."""


class PodFolders:
    """All folders of pods below one root, which exists.

    Args:
        root: the original's `--virtual-manager-path`.
    """

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root

    def listen(self, pod_uid: str) -> socket.socket:
        """Listen on a pod's socket; a file that the original left there is replaced.

        Raises:
            PodFolderError: that isn't possible.
        """
        with self._opened(pod_uid) as folder:
            listener = socket.socket(socket.AF_UNIX)
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(SOCKET, dir_fd=folder)
                # By its descriptor: no other folder comes in between, and the path is short enough
                # for a socket (108 bytes).
                path = f"/proc/self/fd/{folder}/{SOCKET}"
                listener.bind(path)
                os.chmod(path, _SOCKET_MODE)
                listener.listen(_BACKLOG)
            except OSError:
                listener.close()
                raise
            return listener

    def has_socket(self, pod_uid: str, inode: int) -> bool:
        """Say whether the pod's socket is the one with this inode."""
        try:
            return (self._root / pod_uid / SOCKET).stat(follow_symlinks=False).st_ino == inode
        except OSError:
            return False

    def socket_inode(self, pod_uid: str) -> int:
        """Return the inode of a pod's socket, 0 where there is none."""
        try:
            return (self._root / pod_uid / SOCKET).stat(follow_symlinks=False).st_ino
        except OSError:
            return 0

    def write(self, pod_uid: str, container: str, config: bytes, pids: bytes) -> None:
        """Write a container's files, each as a whole; unchanged limits are left alone.

        Args:
            pod_uid: of its pod.
            container: the name of its folder.
            config: vcuda.config.
            pids: pids.config.

        Raises:
            PodFolderError: that isn't possible.
        """
        with self._opened(pod_uid, container) as folder:
            if _read(folder, VCUDA_CONFIG, len(config)) != config:
                _replace(folder, VCUDA_CONFIG, config)
            _replace(folder, PIDS_CONFIG, pids)

    def pods(self) -> frozenset[str]:
        """Return the names of the folders.

        Raises:
            PodFolderError: the root can't be read.
        """
        with self._opened() as root, os.scandir(root) as entries:
            return frozenset(each.name for each in entries if each.is_dir(follow_symlinks=False))

    def containers(self, pod_uid: str) -> frozenset[str]:
        """Return the names of the containers' folders of a pod.

        Raises:
            PodFolderError: they can't be read.
        """
        with self._opened(pod_uid) as folder, os.scandir(folder) as entries:
            return frozenset(each.name for each in entries if each.is_dir(follow_symlinks=False))

    def remove_container(self, pod_uid: str, name: str) -> None:
        """Remove a container's folder, unless it has other files than ours and the original's.

        Raises:
            PodFolderError: it has.
        """
        with self._opened(pod_uid) as folder:
            _remove(folder, name, _FILES)

    def remove(self, pod_uid: str) -> None:
        """Remove a pod's folder, unless it has other files than ours and the original's.

        Raises:
            PodFolderError: it has.
        """
        for container in self.containers(pod_uid):
            self.remove_container(pod_uid, container)
        with self._opened() as root:
            _remove(root, pod_uid, (SOCKET, *_FILES))

    @contextlib.contextmanager
    def _opened(self, *names: str) -> Iterator[int]:
        """Open the root, or a folder below it; the folders are made where they are missing."""
        path = self._root.joinpath(*names)
        if not all(_NAME.fullmatch(each) for each in names):
            raise PodFolderError(f"{path}: is no name of a pod or container")
        descriptors: list[int] = []
        try:
            descriptors.append(os.open(self._root, _DIRECTORY))
            _own(descriptors[-1], _ROOT_MODE)
            for name in names:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, _FOLDER_MODE, dir_fd=descriptors[-1])
                descriptors.append(os.open(name, _DIRECTORY, dir_fd=descriptors[-1]))
                _own(descriptors[-1], _FOLDER_MODE)
            yield descriptors[-1]
        except OSError as error:
            raise PodFolderError(f"{path}: {error}") from error
        finally:
            for each in descriptors:
                os.close(each)


_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _own(folder: int, mode: int) -> None:
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        owner = f"belongs to user {found.st_uid}: remove it, or give it to root"
        raise PermissionError(errno.EPERM, owner)
    if stat.S_IMODE(found.st_mode) != mode:
        os.fchmod(folder, mode)


def _read(folder: int, name: str, most_bytes: int) -> bytes | None:
    """Return a file's bytes, one more than `most_bytes` at most; None where it can't be read.

    A container's root may hold a lease on it (fcntl F_SETLEASE): no open waits for that.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return None
            if stat.S_IMODE(found.st_mode) != _FILE_MODE:
                return None
            return file.read(most_bytes + 1)
    except OSError:
        return None


def _replace(folder: int, name: str, content: bytes) -> None:
    """Put a new file in a file's place: readers see the old one or the new one, and no part."""
    new = name + _NEW
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(new, flags, _FILE_MODE, dir_fd=folder), "wb") as file:
        os.fchmod(file.fileno(), _FILE_MODE)
        file.write(content)
    os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)


def _remove(parent: int, name: str, known: tuple[str, ...]) -> None:
    folder = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        for each in known:
            for file in (each, each + _NEW):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)
