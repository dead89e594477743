"""A share that comes while gpustack-mount starts anew waits for it: a refused one never starts.

The kubelet asks for a pod's devices once.
"""

import pathlib
import socket
import threading
import time

import pytest

from gpustack.adapters.mount_helper import MountError, MountHelper
from gpustack.agent.mounts.main import serve
from gpustack.wire.mount_request import FOLDER
from tests.agent.mounts.namespace import alone, helper

UID = "6f1a2b3c-0000-4000-8000-123456789abc"
SOCKET = "mount.sock"
_SECONDS = 30.0  # more than anything here takes


def _folder(state: pathlib.Path) -> pathlib.Path:
    folder = state / FOLDER / UID / "c0"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("left", ["no socket", "the socket of one that was killed"])
def test_a_share_waits_for_a_helper_that_starts_anew(tmp_path: pathlib.Path, left: str) -> None:
    def body() -> None:
        folder, failures = _folder(tmp_path), list[MountError]()
        if left != "no socket":
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as killed:
                killed.bind(str(tmp_path / SOCKET))

        def ask() -> None:
            try:
                MountHelper(tmp_path / SOCKET, start_seconds=_SECONDS).make(UID, "c0")
            except MountError as error:
                failures.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.2)  # it has found that none is there
        (tmp_path / SOCKET).unlink(missing_ok=True)
        with helper(tmp_path):
            asking.join()
            assert failures == []
            assert folder.is_mount()

    alone(body)


def test_a_request_that_ended_with_its_helper_is_made_again(tmp_path: pathlib.Path) -> None:
    def body() -> None:
        folder = _folder(tmp_path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(tmp_path / SOCKET))
            listener.listen()

            def die_once() -> None:
                listener.accept()[0].close()
                with pytest.raises(OSError, match="Invalid argument"):
                    serve(listener, tmp_path)

            thread = threading.Thread(target=die_once)
            thread.start()
            try:
                MountHelper(tmp_path / SOCKET, start_seconds=_SECONDS).make(UID, "c0")
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()
        assert folder.is_mount()

    alone(body)


def test_a_helper_that_stays_away_is_waited_for_once(tmp_path: pathlib.Path) -> None:
    """The kubelet makes one call at a time, also for pods that need no helper."""
    away = MountHelper(tmp_path / SOCKET, start_seconds=1.0)
    times = []
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(MountError, match="journalctl --unit=gpustack-mount"):
            away.make(UID, "c0")
        times.append(time.monotonic() - began)
    assert times[0] >= 1.0 > times[1]


def test_no_removal_waits_for_a_helper(tmp_path: pathlib.Path) -> None:
    """The removals of many pods would keep the cards of others from being freed."""
    began = time.monotonic()
    with pytest.raises(MountError, match="journalctl --unit=gpustack-mount"):
        MountHelper(tmp_path / SOCKET, start_seconds=_SECONDS).remove(UID, "c0")
    assert time.monotonic() - began < _SECONDS
