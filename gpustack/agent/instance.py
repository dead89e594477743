"""One agent a host: two would take each other's plugin sockets away, twice a second."""

import fcntl
import os
import pathlib
import stat

from gpustack.model.errors import GpustackError


class InstanceError(GpustackError):
    """Another agent runs on this host, or its lock can't be had."""


class OnlyInstance:
    """Holds a lock file until released; the kernel releases it for a process that dies.

    A user who may read a file may lock it, so only root may: another user's lock would keep
    the agent from starting. The folder is open to all, who find `agent.sock` there.

    Raises:
        InstanceError: another process holds it, or another kind of file is in its place.
        OSError: the folder can't be made.
    """

    def __init__(self, path: pathlib.Path) -> None:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._descriptor = _open(path)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            text = f"another agent runs, or another program holds {path}: fuser -v {path} names it"
            raise InstanceError(text) from error

    def release(self) -> None:
        """Let another agent start."""
        os.close(self._descriptor)


def _open(path: pathlib.Path) -> int:
    # A link would lead to a file elsewhere, and a FIFO would keep the agent waiting.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise InstanceError(f"{path}: {error.strerror}; remove it") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InstanceError(f"{path}: is no regular file; remove it")
    os.fchmod(descriptor, 0o600)  # an earlier version made it for all to read
    return descriptor
