"""A tenant that floods its pod's socket delays itself, and neither its neighbours nor the agent."""

import contextlib
import os
import pathlib
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from gpustack.adapters.vcuda import Registration, RelayBounds, VcudaServer
from tests.agent.virtual_manager.original import PREAMBLE
from tests.waiting import running

_SECONDS = 10.0
# A call whose message doesn't come; without the acknowledgement of settings that aren't there yet.
_CALL = PREAMBLE[:33] + PREAMBLE[42:]
_BOUNDS = RelayBounds(connections=4, total=6, seconds=2.0, bytes=4096)


class _Served:
    def __init__(self, folder: pathlib.Path, bounds: RelayBounds) -> None:
        self.folder = folder
        self.seen: list[Registration] = []
        self.server = VcudaServer(folder / "own" / "server.sock", self.seen.append, bounds)
        for name in ("one", "two"):
            (folder / name).mkdir()
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(folder / name / "vcuda.sock"))
            listener.listen(128)
            self.server.listen(name, listener)

    def connect(self, name: str) -> socket.socket:
        caller = socket.socket(socket.AF_UNIX)
        caller.settimeout(_SECONDS)
        caller.connect(str(self.folder / name / "vcuda.sock"))
        return caller


@pytest.fixture
def served(tmp_path: pathlib.Path) -> Iterator[_Served]:
    served = _Served(tmp_path, _BOUNDS)
    with running(served.server.run):
        yield served


def _register(served: _Served, program: pathlib.Path, name: str) -> float:
    """Register once; return how many seconds it took."""
    began = time.monotonic()
    uid = ("u", "c" * 64, "c0", "50", "1", "-1", "535", "0")
    process = subprocess.run(
        [program, served.folder / name, PREAMBLE.hex(), *uid],
        input="go\n",
        text=True,
        capture_output=True,
        timeout=_SECONDS,
        check=False,  # it ends with 1: nobody has written its files
    )
    assert "rpc client" not in process.stdout, process.stdout
    return time.monotonic() - began


def test_drippers_of_one_pod_do_not_delay_another(served: _Served, program: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            caller = stack.enter_context(served.connect("one"))
            caller.sendall(_CALL)
        assert _register(served, program, "two") < 1.0
        assert [each.caller.socket for each in served.seen] == ["two"]


def test_a_dripper_is_closed_after_its_time(served: _Served, program: pathlib.Path) -> None:
    with contextlib.ExitStack() as stack:
        callers = [stack.enter_context(served.connect("one")) for _ in range(4)]
        assert _register(served, program, "one") < _BOUNDS.seconds + 2
        while callers[0].recv(4096):  # the server's settings, and then the end
            pass
    assert served.server.dropped >= 1


def test_a_caller_that_sends_too_much_is_closed(served: _Served) -> None:
    with served.connect("one") as caller, contextlib.suppress(ConnectionError):
        caller.sendall(_CALL + bytes(8192))
        while caller.recv(4096):
            pass
    assert served.seen == []


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 2000, b""])
def test_a_caller_without_grpc_is_closed(served: _Served, garbage: bytes) -> None:
    with served.connect("one") as caller, contextlib.suppress(ConnectionError):
        caller.sendall(garbage)
        caller.shutdown(socket.SHUT_WR)
        while caller.recv(4096):
            pass
    assert served.seen == []


def test_registrations_of_one_pod_are_few_a_second(tmp_path: pathlib.Path) -> None:
    bounds = RelayBounds(burst=3, a_second=5.0)
    served = _Served(tmp_path, bounds)
    with running(served.server.run):
        began = time.monotonic()
        for _ in range(8):
            with served.connect("one") as caller:
                caller.sendall(_CALL[:33])
                caller.recv(1)  # the server's settings: it was taken
        assert time.monotonic() - began >= 5 / bounds.a_second * 0.9


def test_sockets_come_and_go_while_it_runs(
    served: _Served,
    program: pathlib.Path,
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for round_ in range(300):
        name = f"more{round_}"
        (tmp_path / name).mkdir()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / name / "vcuda.sock"))
        listener.listen(1)
        served.server.listen(name, listener)
        with served.connect(name) as waiting, contextlib.suppress(ConnectionError):
            served.server.forget(name)
            while waiting.recv(4096):  # it may have been taken before
                pass
    assert _register(served, program, "one") < _SECONDS
    assert len(os.listdir("/proc/self/fd")) - descriptors < 10
    assert not caplog.records, "a connection was lost as its socket went"


def test_only_root_reaches_the_server_behind_the_relay(served: _Served) -> None:
    assert _register_any(served)
    assert (served.folder / "own").stat().st_mode & 0o777 == 0o700


def _register_any(served: _Served) -> bool:
    """Say whether the relay serves: the server stands by then."""
    with served.connect("one") as caller:
        caller.sendall(_CALL[:33])
        return bool(caller.recv(1))
