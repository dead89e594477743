"""A port that another program has is named before anything changes."""

import pathlib
import socket

import pytest

from tests.ansible.preflight.preflight_host import write_program
from tests.ansible.rendering import run_role, words

pytestmark = pytest.mark.long


@pytest.mark.parametrize("state", ["inactive", "active"])
def test_a_port_is_the_extenders_own_only_while_it_runs(tmp_path: pathlib.Path, state: str) -> None:
    write_program(tmp_path, "systemctl", f"echo ActiveState={state}")
    write_program(tmp_path, "openssl", "true")
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = run_role(
            tmp_path, "gpustack_extender", "preflight", {"gpustack_extender_listen": address},
            programs=tmp_path / "programs",
        )  # fmt: skip
    told = f"Another program of localhost listens on {address}: end it, or set" in words(done)
    assert (done.returncode != 0, told) == (state == "inactive",) * 2, done.stdout
