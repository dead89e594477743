"""The files of all containers, held open for writing and kept in the form they were made in.

Root in a container owns the files that are mounted there, and may take a lease on one (fcntl
F_SETLEASE): who opens it then waits for up to 45 s (fs.lease-break-time), in the agent as in the
container. The kernel gives no lease, of either kind, on a file that a process has open for writing.
So the agent has each of them open from before its container starts, and systemd keeps the
descriptors while the agent restarts.

A tenant may write its ledger, and so change its size, as its root the mode and owner, too: a
program in it with mode 4755 would make a local user root, and its size is the host's disk.
"""

import logging
import os
import pathlib
import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Final, TypeVar

from gpustack.adapters import mapped
from gpustack.adapters.systemd import DescriptorStore
from gpustack.wire.mapped.two_slot_page import LAYOUT_VERSION, LayoutError

logger = logging.getLogger(__name__)

# FileDescriptorStoreMax of the agent's unit: three files for each of 512 containers. systemd names
# all in one variable of at most 128 KiB (MAX_ARG_STRLEN in the kernel's binfmts.h): 85 bytes each.
MOST_FILES: Final = 1536

# Containers have the other files mounted read-only: those are looked at each tenth time.
_WRITABLE: Final = ("ledger",)
_LOOKS: Final = 10

_Key = TypeVar("_Key")
_Inode = tuple[int, int]  # device and number


class HeldFiles:
    """Descriptors on the files of containers, by folder. Safe to share between threads.

    Args:
        store: keeps them beyond the agent's end.
        most: how many may be held; a tenant may take a lease on a file beyond it.
    """

    def __init__(self, store: DescriptorStore, *, most: int = MOST_FILES) -> None:
        self._store = store
        self._most = most
        self._lock = threading.Lock()  # guards all below
        self._held: dict[pathlib.Path, dict[str, int]] = {}  # descriptors by folder and name
        self._received = {_inode(each): each for each in store.received}
        self._failed: set[tuple[pathlib.Path, str]] = set()
        self._looks = 0
        self._names: tuple[str, ...] = tuple(mapped.FORMS)

    def hold(self, folder: pathlib.Path) -> None:
        """Hold the files of a container that aren't held yet, or were made anew.

        A file that can't be opened, under a lease for instance, is logged, and comes later.
        """
        with self._lock:
            self._hold(folder)

    def look(self, folders: Iterable[pathlib.Path]) -> Mapping[pathlib.Path, bool]:
        """Hold what isn't held, and let go of removed files that systemd has kept.

        Args:
            folders: of all containers that may run.

        Returns:
            By folder whose files are held, whether `restore` has something to do there.
        """
        living = tuple(folders)
        with self._lock:
            for folder in living:
                if len(self._held.get(folder, ())) < len(mapped.FORMS):
                    self._hold(folder)
            # A look between `let_go` and the unmounting holds files that keep their names.
            for folder in self._held.keys() - living:
                if not folder.exists():
                    self._release_all(self._held.pop(folder), lambda _: True)
            self._release_removed(self._received)
            self._names = _WRITABLE if self._looks % _LOOKS else tuple(mapped.FORMS)
            self._looks += 1
            return {
                folder: self._names != _WRITABLE or not _is_untouched(files)
                for folder, files in self._held.items()
            }

    def let_go(self, device: int) -> None:
        """Hold no file of a file system that will be unmounted, nor let systemd keep one.

        Args:
            device: `st_dev` of its files.
        """
        with self._lock:
            for files in self._held.values():
                self._release_all(files, lambda found: found.st_dev == device)
            self._release_all(self._received, lambda found: found.st_dev == device)
            gone = {folder for folder, files in self._held.items() if not files}
            self._held = {each: files for each, files in self._held.items() if each not in gone}
            self._failed = {each for each in self._failed if each[0] not in gone}

    @property
    def count(self) -> int:
        """Number of the files that are held."""
        with self._lock:
            return self._count()

    def close(self) -> None:
        """Close them all; systemd keeps its own."""
        with self._lock:
            for descriptor in (*self._received.values(), *self._descriptors()):
                os.close(descriptor)
            self._received.clear()
            self._held.clear()

    def _descriptors(self) -> tuple[int, ...]:
        return tuple(each for files in self._held.values() for each in files.values())

    def _count(self) -> int:
        return len(self._received) + sum(len(files) for files in self._held.values())

    def _hold(self, folder: pathlib.Path) -> None:
        files = self._held.setdefault(folder, {})
        for name in mapped.FORMS:
            try:
                self._hold_one(folder / name, files)
            except OSError as error:
                self._log_once(folder, name, "not held, a tenant may take a lease on it", error)
        if not files:
            del self._held[folder]

    def _hold_one(self, path: pathlib.Path, files: dict[str, int]) -> None:
        found = path.stat(follow_symlinks=False)
        inode = found.st_dev, found.st_ino
        before = files.get(path.name)
        if before is not None:
            if _inode(before) == inode:
                return
            self._release(files.pop(path.name))
        received = self._received.pop(inode, None)
        files[path.name] = self._open(path) if received is None else received

    def _open(self, path: pathlib.Path) -> int:
        if self._count() >= self._most:
            raise OSError(f"{path}: {self._most} files of containers are held already")
        descriptor = mapped.open_for_writing(path)
        try:
            self._store.add(_name(descriptor), descriptor)
        except OSError as error:
            self._log_once(path.parent, "", "not kept by systemd for a restart", error)
        return descriptor

    def restore(self, folder: pathlib.Path) -> Mapping[str, str]:
        """Restore the form of a container's files, load them, and let go of removed ones.

        A change waits for a write to the same file that is under way, and a tenant chooses how
        long its write takes: no other call waits meanwhile.

        Returns:
            By file and property (`ledger's mode`), what its tenant had changed; another owner
            stays.
        """
        if _is_newer(folder):
            return {}  # a newer agent's files may have another form
        changes: dict[str, str] = {}
        for name in self._names:
            with self._lock:
                descriptor = self._held.get(folder, {}).get(name)
                own = None if descriptor is None else _duplicate(descriptor)
            if own is None:
                continue
            try:
                found = mapped.restore(own, mapped.FORMS[name])
                mapped.load(own)
            except OSError as error:
                with self._lock:
                    self._log_once(folder, name, "its form is not restored", error)
                continue
            finally:
                os.close(own)
            if found is None:
                self._forget_removed(folder)
            elif found:
                changes.update({f"{name}'s {what}": text for what, text in found.items()})
        return changes

    def _forget_removed(self, folder: pathlib.Path) -> None:
        with self._lock:
            files = self._held.get(folder, {})
            self._release_removed(files)
            if not files:
                self._held.pop(folder, None)
                self._failed = {each for each in self._failed if each[0] != folder}

    def _release_removed(self, files: MutableMapping[_Key, int]) -> None:
        self._release_all(files, lambda found: not found.st_nlink)

    def _release_all(
        self, files: MutableMapping[_Key, int], is_due: Callable[[os.stat_result], bool]
    ) -> None:
        for key, descriptor in tuple(files.items()):
            if is_due(os.fstat(descriptor)):
                self._release(files.pop(key))

    def _release(self, descriptor: int) -> None:
        name = _name(descriptor)
        os.close(descriptor)
        try:
            self._store.remove(name)
        except OSError as error:
            logger.warning("systemd still keeps a removed file open: %s", error)

    def _log_once(self, folder: pathlib.Path, name: str, what: str, error: OSError) -> None:
        if (folder, name) not in self._failed:
            self._failed.add((folder, name))
            logger.warning("%s path=%s: %s", what, folder / name, error)


def _is_untouched(files: Mapping[str, int]) -> bool:
    """Say whether a container's ledger is as it was made, in a file system that no disk keeps."""
    ledger = files.get("ledger")
    return (
        ledger is not None
        and mapped.is_in_form(ledger, mapped.FORMS["ledger"])
        and mapped.has_own_file_system(ledger)
    )


def _is_newer(folder: pathlib.Path) -> bool:
    """Say whether a newer agent made a container's files; the ledger's word is its tenant's."""
    try:
        return mapped.read_layout(folder / "limits") > LAYOUT_VERSION
    except (OSError, LayoutError):
        return False  # missing or damaged: not by a newer agent


def _duplicate(descriptor: int) -> int | None:
    """Return a descriptor of one's own, None where the process may have no more: a later look has.

    The file may be let go of while its form is restored.
    """
    try:
        return os.dup(descriptor)
    except OSError as error:
        logger.warning("a file's form is not restored at this look: %s", error)
        return None


def _inode(descriptor: int) -> _Inode:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _name(descriptor: int) -> str:
    """Return the name in systemd's store: while the file is open, no other has this inode."""
    return "{:x}-{:x}".format(*_inode(descriptor))
