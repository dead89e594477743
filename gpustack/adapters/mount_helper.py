"""The agent's side of gpustack-mount, which mounts where the container runtime sees it."""

import pathlib
import socket
import time
from typing import Final

from gpustack.model.errors import GpustackError
from gpustack.wire.mount_request import DONE, MOST_BYTES, BadMountRequest, MountRequest, Verb

_ANSWER_SECONDS: Final = 5.0  # a mount takes less than a millisecond
# systemd starts a helper that has ended after a second (RestartSec=), and Python takes another one
# on a busy host. An Allocate waits as long for free cards.
_START_SECONDS: Final = 4.0
_LOOK_SECONDS: Final = 0.05
_ENDED: Final = (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError)


class MountError(GpustackError):
    """The helper refuses, or doesn't answer."""


class _HelperAwayError(MountError):
    """The helper doesn't run, or has ended with the request."""


class MountHelper:
    """Asks for the tmpfs of one container at a time.

    Args:
        path: of the helper's socket.
        start_seconds: how long `make` waits for a helper that starts anew.
    """

    def __init__(self, path: pathlib.Path, *, start_seconds: float = _START_SECONDS) -> None:
        self._path = path
        self._start_seconds = start_seconds
        self._was_away = False  # the last wait was in vain

    def make(self, pod_uid: str, container: str) -> None:
        """Have a new tmpfs mounted on a container's folder, in the place of an earlier one.

        It waits for a helper that starts anew, because the kubelet fails a pod whose Allocate is
        refused for good. After a wait in vain it waits no more until the helper answers: the
        kubelet makes one call at a time.

        Raises:
            MountError: the folder is as it was, or the helper has ended since it was asked.
        """
        request = MountRequest(verb=Verb.MAKE, pod_uid=pod_uid, container=container)
        until = time.monotonic() + (0.0 if self._was_away else self._start_seconds)
        while True:
            try:
                self._ask(request)
            except _HelperAwayError:
                if time.monotonic() >= until:
                    self._was_away = True
                    raise
                time.sleep(_LOOK_SECONDS)
            else:
                self._was_away = False
                return

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
                if not answer:
                    raise ConnectionResetError("it has ended without an answer")
        except BadMountRequest as error:
            raise MountError(str(error)) from error
        except OSError as error:
            text = f"{self._path}: {error}; see journalctl --unit=gpustack-mount"
            raise (_HelperAwayError if isinstance(error, _ENDED) else MountError)(text) from error
        if answer != DONE:
            raise MountError(answer.decode("utf-8", "replace"))
