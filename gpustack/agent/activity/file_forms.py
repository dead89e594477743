"""The form of containers' files, restored in a thread of its own.

The kernel keeps a change of a file waiting while its tenant's write to it is under way (inode
lock), and a tenant chooses how long that takes. Samples and bursts don't wait for it.
"""

import pathlib
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from gpustack.agent.containers.held_files import HeldFiles

# Longer than a look at 512 containers takes; a burst ends within 200 ms all the same.
_WAIT_SECONDS: Final = 0.1

_Changes = Mapping[pathlib.Path, Mapping[str, str]]


class FileForms:
    """Looks at all files once a call, unless the look before is still under way.

    Args:
        held: the files.
    """

    def __init__(self, held: HeldFiles) -> None:
        self._held = held
        self._thread = ThreadPoolExecutor(1, "file-forms")
        self._look: Future[_Changes] | None = None

    def look(self, folders: Collection[pathlib.Path]) -> _Changes:
        """Begin a look, and return what the last one that has ended found.

        Args:
            folders: of all containers that may run.

        Returns:
            As `HeldFiles.look` does; nothing while a look is under way.
        """
        if self._look is None:
            self._look = self._thread.submit(self._held.look, folders)
        if wait([self._look], _WAIT_SECONDS).not_done:
            return {}
        found, self._look = self._look.result(), None
        return found
