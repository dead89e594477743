"""Files that the containers of several tenants have mounted: the hook's and the driver's.

Root in a container owns the files that are mounted there, read-only or not, and may take a write
lease on them (fcntl F_SETLEASE): for up to 45 s (fs.lease-break-time) an open of the file waits, in
programs of the other tenants and the agent alike, and then root may take the next lease. The kernel
gives no such lease on a file that another process has open. So the agent has them open, and waits
for none.
"""

import logging
import os
import pathlib
import stat
import threading
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from gpustack.wire.files.regular_file import open_at_once

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
_MOST_FILES: Final = 512  # of the unit's LimitNOFILE; a driver has some sixty, a hook four


class SharedFiles:
    """Keeps the regular files of some folders open until it is closed.

    Args:
        folders: they may be missing, and change.
    """

    def __init__(self, folders: Iterable[pathlib.Path]) -> None:
        self._folders = tuple(folders)
        self._open: dict[tuple[int, int], BinaryIO] = {}  # by device and inode
        self._failed: set[pathlib.Path] = set()

    def run(self, stop: threading.Event) -> None:
        """Keep the files open, also those that come later, until `stop` is set."""
        while not stop.wait(_LOOK_SECONDS):
            self.keep()

    def keep(self) -> None:
        """Open the files that aren't open yet; a file under a lease at a later call.

        A file that isn't there any more is closed: its disk space is free then.
        """
        here: set[tuple[int, int]] = set()
        for folder in self._folders:
            for path in _paths(folder):
                try:
                    here.add(self._keep(path))
                except OSError as error:
                    if path not in self._failed:
                        self._failed.add(path)
                        logger.warning("not open, a tenant may get a lease on it: %s", error)
        for gone in self._open.keys() - here:
            self._open.pop(gone).close()

    def close(self) -> None:
        """Close them all."""
        while self._open:
            self._open.popitem()[1].close()

    def _keep(self, path: pathlib.Path) -> tuple[int, int]:
        found = path.stat(follow_symlinks=False)
        key = found.st_dev, found.st_ino
        if stat.S_ISREG(found.st_mode) and key not in self._open:
            if len(self._open) >= _MOST_FILES:
                raise OSError(f"{path}: more than {_MOST_FILES} files")
            self._open[key] = open_at_once(path)
        return key


def _paths(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Return the files below a folder; of a folder that is removed meanwhile, those still found.

    A run of site.yml moves new builds into place and removes old ones. Path.rglob raises then, in
    Python 3.11.
    """
    for top, _, names in os.walk(folder):
        yield from (pathlib.Path(top, name) for name in names)
