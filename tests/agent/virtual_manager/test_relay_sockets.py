"""The relay closes each listening socket that it was given, whatever comes between."""

import pathlib
import socket
import threading

from gpustack.adapters.vcuda.peer_relay import PeerRelay


def _listener(path: pathlib.Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_every_socket_is_closed_in_the_end(tmp_path: pathlib.Path) -> None:
    relay, stop = PeerRelay(tmp_path / "server"), threading.Event()
    early, former, later, late = (_listener(tmp_path / str(number)) for number in range(4))
    relay.listen("pod", early)
    runs = threading.Thread(target=relay.run, args=(stop,))
    runs.start()
    relay.listen("pod", former)
    relay.listen("other", later)
    stop.set()
    relay.forget("other")
    runs.join()
    relay.listen("pod", late)
    assert [each.fileno() for each in (early, former, later, late)] == [-1] * 4
