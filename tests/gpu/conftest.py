"""Tests that need a card say so in one line where none answers."""

import pathlib

import pytest


@pytest.fixture(scope="session", autouse=True)
def real_card() -> None:
    """Skip unless the kernel driver of a real card is loaded."""
    if not pathlib.Path("/proc/driver/nvidia/version").exists():
        pytest.skip("no NVIDIA driver on this machine: /proc/driver/nvidia/version is missing")
