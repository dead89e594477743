"""Folders of containers on the host's disk: replaced at once, and removed when that may be.

The kernel keeps the removal of a file, and a rename over it, waiting while a write to it is under
way (vfs_unlink and vfs_rename in fs/namei.c take the inode's lock): a tenant chooses how long its
write takes, and whose process does it, for one of another container may have the descriptor. The
rename of a folder takes no lock of a file in it. It stays in the folder above, because a rename
into another one takes a lock of the whole file system, which a tenant can hold as well.
"""

import contextlib
import logging
import os
import pathlib
import queue
import shutil
import threading
from typing import Final

logger = logging.getLogger(__name__)

_MOST: Final = 8  # of one container, which starts again and again; each takes 284 KiB of the disk


class OldFolders:
    """Replaces folders; one thread removes the old ones, and waits for tenants' writes.

    The agent doesn't wait for this thread when it ends, but the kernel keeps its process until the
    write ends (docs/decisions/0014-files-of-a-share.md). What is left then goes with its pod.
    """

    def __init__(self) -> None:
        self._due: queue.SimpleQueue[pathlib.Path] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def replace(self, folder: pathlib.Path) -> None:
        """Put an empty folder in a container's folder's place; one caller at a time.

        Raises:
            OSError: the disk refuses, or earlier folders of this container wait for their removal.
        """
        names = (folder.with_name(f".{folder.name}.{number}") for number in range(_MOST))
        old = next((each for each in names if not each.exists()), None)
        if old is None:
            text = (
                f"{_MOST} earlier folders of it can't be removed yet: a process writes to a file in"
                " one for long, or the disk hangs; delete the pod"
            )
            raise OSError(text)
        folder.rename(old)
        folder.mkdir(mode=0o700)
        self._due.put(old)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="old folders", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            old = self._due.get()
            try:
                remove_folder(old)
            except OSError as error:
                logger.warning("stays until its pod ends path=%s: %s", old, error)


def remove_folder(folder: pathlib.Path) -> None:
    """Remove a folder of which another thread may remove a part at the same time.

    Raises:
        OSError: something in it can't be removed.
    """
    while os.path.lexists(folder):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
