"""A module of the collection runs with the code that a role's modules share."""

import json
import pathlib

import pytest

from tests.ansible.release.test_collection import collection, command, installed

__all__ = ["collection", "installed"]

pytestmark = pytest.mark.long


def test_a_module_finds_the_code_that_it_shares(
    installed: pathlib.Path,
) -> None:
    asked = {
        "parts": [], "root": str(installed), "environment": "/", "state": "/x", "agent": "x:1",
        "extender": "x:1", "file_bytes": 99, "lines": 1, "seconds": 9,
    }  # fmt: skip
    done = command(
        installed, "ansible", "localhost", "--connection=local", f"--args={json.dumps(asked)}",
        "--module-name=gpustack.gpustack.support_host",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "host.json" in done.stdout
