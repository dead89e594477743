"""The script of gpustack-device says what a host lacks."""

import pathlib
import subprocess

import pytest

from tests.ansible import rendering

pytestmark = pytest.mark.long


@pytest.mark.nightly
@pytest.mark.skipif(pathlib.Path("/proc/driver/nvidia").exists(), reason="this host has a driver")
def test_a_host_without_cards_is_told_to_load_the_driver(tmp_path: pathlib.Path) -> None:
    programs, rendered = tmp_path / "bin", tmp_path / "rendered"
    for folder in (programs, rendered):
        folder.mkdir()
    for name in ("modprobe", "nvidia-modprobe"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    rendering.render(rendered, nvidia_uvm_modprobe_path=str(programs / "nvidia-modprobe"))
    done = subprocess.run(
        ["sh", rendered / "gpustack-device.sh"],
        env={"PATH": f"{programs}:/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = "no card under /proc/driver/nvidia/gpus: is the driver loaded?\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
