"""The agent's side of gpustack-mount, which mounts where the container runtime sees it."""

import pathlib
import socket
from typing import Final

from gpustack.model.errors import GpustackError
from gpustack.wire.mount_request import DONE, MOST_BYTES, BadMountRequest, MountRequest, Verb

# A mount takes less than a millisecond; systemd starts the helper anew within a second.
_ANSWER_SECONDS: Final = 5.0


class MountError(GpustackError):
    """The helper refuses, or doesn't answer."""


class MountHelper:
    """Asks for the tmpfs of one container at a time.

    Args:
        path: of the helper's socket.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def make(self, pod_uid: str, container: str) -> None:
        """Have a new tmpfs mounted on a container's folder, in the place of an earlier one.

        Raises:
            MountError: the folder is as it was.
        """
        self._ask(MountRequest(verb=Verb.MAKE, pod_uid=pod_uid, container=container))

    def remove(self, pod_uid: str, container: str) -> None:
        """Have what is mounted on a container's folder unmounted.

        Raises:
            MountError: it is still there.
        """
        self._ask(MountRequest(verb=Verb.REMOVE, pod_uid=pod_uid, container=container))

    def _ask(self, request: MountRequest) -> None:
        try:
            packet = request.encode()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as to:
                to.settimeout(_ANSWER_SECONDS)
                to.connect(str(self._path))
                to.send(packet)
                answer = to.recv(MOST_BYTES)
        except BadMountRequest as error:
            raise MountError(str(error)) from error
        except OSError as error:
            text = f"{self._path}: {error}; see journalctl --unit=gpustack-mount"
            raise MountError(text) from error
        if answer != DONE:
            raise MountError(answer.decode("utf-8", "replace") or f"{self._path}: no answer")
