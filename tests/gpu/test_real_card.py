"""What only silicon can show: NVML's own answers, and the hook's self-test under real limits."""

import pathlib
import subprocess

import pytest

from gpustack.adapters.nvml import Nvml

pytestmark = pytest.mark.gpu
HOOK = pathlib.Path(__file__).resolve().parents[2] / "hook" / "out" / "x86_64"


def test_the_inventory_agrees_with_nvidia_smi() -> None:
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected = {line.split(", ")[0]: int(line.split(", ")[1]) for line in listed.splitlines()}
    inventory = Nvml().inventory()
    assert {card.uuid: card.memory_bytes >> 20 for card in inventory.cards} == expected


def test_without_readable_limits_the_hook_is_closed() -> None:
    done = subprocess.run(
        [str(HOOK / "gpustack-hook-selftest")],
        env={"LD_PRELOAD": str(HOOK / "libvcuda.so")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "limits" in done.stdout + done.stderr
