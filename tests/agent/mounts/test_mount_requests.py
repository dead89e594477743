"""What gpustack-mount is asked for: a container's folder and no other."""

import pathlib
import socket
import subprocess
import sys

import pytest

from gpustack.adapters.mount_helper import MountError, MountHelper
from gpustack.wire.mount_request import FOLDER, BadMountRequest, decode
from tests.agent.mounts.namespace import alone, helper

UID = "6f1a2b3c-0000-4000-8000-123456789abc"


@pytest.mark.parametrize("link", [FOLDER, f"{FOLDER}/{UID}", f"{FOLDER}/{UID}/c0"])
def test_no_link_leads_a_mount_elsewhere(tmp_path: pathlib.Path, link: str) -> None:
    def body() -> None:
        other = tmp_path / "other"
        (other / UID / "c0").mkdir(parents=True)
        (other / "c0").mkdir()
        path = tmp_path / link
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(other)
        with (
            helper(tmp_path) as mounting,
            pytest.raises(MountError, match="Not a directory"),
        ):
            mounting.make(UID, "c0")
        assert not any(each.is_mount() for each in other.rglob("*"))

    alone(body)


@pytest.mark.parametrize(
    "packet",
    [b"", b"make", b"make .. c0", b"make 6f1a2b3c/../../../etc0000000000000000000 c0",
     f"make {UID} ..".encode(), f"make {UID} a/b".encode(), f"make {UID} c0\n".encode(),
     f"umount {UID} c0".encode(), f"make {UID} {'a' * 64}".encode(), b"\xff" * 5000],
)  # fmt: skip
def test_a_request_for_any_other_folder_is_refused(packet: bytes) -> None:
    with pytest.raises(BadMountRequest):
        decode(packet)


def test_the_helper_answers_after_a_client_that_says_nothing(tmp_path: pathlib.Path) -> None:
    with helper(tmp_path) as mounting, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as mute:
        mute.connect(str(tmp_path / "mount.sock"))
        with pytest.raises(MountError, match="No such file or directory"):
            mounting.make(UID, "c0")


def test_a_name_that_no_container_has_is_refused_before_it_is_sent(tmp_path: pathlib.Path) -> None:
    with pytest.raises(MountError, match="not `make"):
        MountHelper(tmp_path / "nobody.sock").make(UID, "../c0")


def test_the_program_names_a_socket_that_it_cannot_have(tmp_path: pathlib.Path) -> None:
    program = [sys.executable, "-m", "gpustack.agent.mounts.main"]
    ended = subprocess.run(
        [*program, "--state", tmp_path, "--socket", tmp_path / "away" / "mount.sock"],
        check=False, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "No such file or directory" in ended.stderr
