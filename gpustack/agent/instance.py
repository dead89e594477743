"""One agent a host: two would take each other's plugin sockets away, twice a second."""

import fcntl
import pathlib

from gpustack.model.errors import GpustackError


class InstanceError(GpustackError):
    """Another agent runs on this host."""


class OnlyInstance:
    """Holds a lock file until released; the kernel releases it for a process that dies.

    Raises:
        InstanceError: somebody else holds it.
        OSError: the file can't be made.
    """

    def __init__(self, path: pathlib.Path) -> None:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._file = path.open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise InstanceError(f"another agent holds {path}") from error

    def release(self) -> None:
        """Let another agent start."""
        self._file.close()
