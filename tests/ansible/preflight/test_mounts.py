"""Preflight refuses a host whose units don't see what is mounted after their start."""

import pathlib

import pytest

from tests.ansible.preflight.preflight_host import play, write_program

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("propagation", "passes"),
    [("shared", True), ("private,slave", False), ("private", False), ("shared,slave", True)],
)
def test_the_hosts_mounts_must_be_shared(
    tmp_path: pathlib.Path, propagation: str, passes: bool
) -> None:
    write_program(tmp_path, "findmnt", f"echo {propagation}")
    status, words = play(tmp_path, "mounts", {})
    assert (status == 0) is passes, words
    if not passes:
        assert f"The mounts of gpu1 are {propagation}: the agent wouldn't see" in words
        assert "Run mount --make-rshared / at each boot" in words
