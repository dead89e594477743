"""The file of the CDI spec, kept as the agent wrote it."""

import contextlib
import os
import pathlib
import stat
from typing import Final

from gpustack.wire.files import durable_file, regular_file

NAME: Final = "gpustack.json"
_MODE: Final = 0o644


class SpecFile:
    """One file in a folder that runtimes read; the other files there are not ours.

    Args:
        folder: made if it isn't there.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = folder / NAME

    def keep(self, content: bytes) -> bool:
        """Write the file unless it is there, of this content, and root's alone to change.

        Returns:
            Whether it was written.

        Raises:
            OSError: it can't be.
        """
        if self._is(content):
            return False
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Written under an ending that runtimes pass over, in the same folder: a containerd of 1.7
        # looks there again when a name leaves, and not when one comes (CDI's pkg/cdi/cache.go).
        durable_file.replace(self.path, content, _MODE)
        return True

    def remove(self) -> bool:
        """Remove the file, and say whether it was there.

        Raises:
            OSError: it can't be.
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.path.unlink()
            return True
        return False

    def _is(self, content: bytes) -> bool:
        try:
            found = self.path.stat(follow_symlinks=False)
            is_kept = (found.st_mode, found.st_uid) == (stat.S_IFREG | _MODE, os.geteuid())
            return is_kept and regular_file.read(self.path, max_bytes=len(content)) == content
        except (OSError, ValueError):
            return False  # then it is written anew, and that says what is wrong
