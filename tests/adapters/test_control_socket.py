"""The agent's socket: gRPC services for root, and for no other user."""

import contextlib
import os
import pathlib
import stat
import subprocess
import sys
from collections.abc import Iterator

import grpc
import pytest

from gpustack.adapters.control import ControlServer, Service
from tests.waiting import running, wait_until

_SECONDS = 10.0  # after this long a test counts as hung
_OTHER = 65534  # nobody
# As another user, in a folder that this user may enter; prints the error's name.
_CONNECT = """
import socket
try:
    socket.socket(socket.AF_UNIX).connect("agent.sock")
except OSError as error:
    print(type(error).__name__)
"""


@contextlib.contextmanager
def _running(path: pathlib.Path, answer: bytes = b"") -> Iterator[None]:
    """Serve `test.Words/Say`, which answers with the request, or with `answer`."""

    def say(request: bytes, _: grpc.ServicerContext) -> bytes:
        return answer or request

    service = Service(name="test.Words", methods={"Say": grpc.unary_unary_rpc_method_handler(say)})
    with running(ControlServer(path, (service,)).run):
        wait_until(path.is_socket)
        yield


def _call(path: pathlib.Path, request: bytes) -> bytes:
    with grpc.insecure_channel(f"unix:{path}") as channel:
        say: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/test.Words/Say")
        return say(request, timeout=_SECONDS)


def test_a_call_is_answered_until_the_server_ends(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "agent.sock"
    path.touch()  # an earlier agent was killed
    with _running(path):
        assert _call(path, b"x") == b"x"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_the_kernel_refuses_another_users_connection(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o755)
    with _running(tmp_path / "agent.sock"):
        done = subprocess.run(
            [sys.executable, "-c", f"import os\nos.setuid({_OTHER})\n{_CONNECT}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=_SECONDS,
        )
    assert done.stdout == "PermissionError\n"


def test_a_long_answer_passes_as_it_is(tmp_path: pathlib.Path) -> None:
    text = os.urandom(3_000_000)
    path = tmp_path / "agent.sock"
    with _running(path, text):
        assert _call(path, b"x") == text


def test_a_request_of_more_than_64_kib_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "agent.sock"
    with _running(path), pytest.raises(grpc.RpcError) as caught:
        _call(path, bytes(64 * 1024 + 1))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
