"""Builds the hook and the simulated driver once, and makes containers and overlays of them."""

import json
import os
import pathlib
import platform
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.hook.container import (
    CARD,
    CARD_BYTES,
    HOOK,
    SIMGPU,
    Container,
    make,
)
from tests.hook.root import Root, compiled


@pytest.fixture(scope="session")
def build() -> pathlib.Path:
    """The hook's build folder, with the product's files and the tests' variant."""
    make(HOOK, "all", "tests")
    return HOOK / "out"


@pytest.fixture(scope="session")
def driver() -> pathlib.Path:
    """The simulated driver's build folder."""
    make(SIMGPU)
    return SIMGPU / "out"


@pytest.fixture
def container(tmp_path: pathlib.Path, build: pathlib.Path, driver: pathlib.Path) -> Container:
    """A container with a quarter of an 8 GiB card."""
    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (devices / name).touch()
    card = {"minor": 0, "uuid": CARD, "memory": CARD_BYTES}
    (tmp_path / "cards.json").write_text(json.dumps({"cards": [card]}))
    made = Container(tmp_path / "container", build, driver)
    environment = made.environment | {"LD_PRELOAD": ""}
    subprocess.run([made.simgpu, "init"], check=True, env=environment)
    return made


@pytest.fixture
def overlay(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder on overlayfs, which has the root of live systems and immutable distributions.

    A mapping there holds the file of the layer below instead of the file that was opened.
    """
    if os.geteuid() != 0:
        pytest.skip("mounting an overlayfs needs root: run it as root")
    layers = {name: tmp_path / "overlay" / name for name in ("lower", "upper", "work", "merged")}
    for folder in layers.values():
        folder.mkdir(parents=True)
    options = "lowerdir={lower},upperdir={upper},workdir={work}".format(**layers)
    command = ["mount", "-t", "overlay", "overlay", "-o", options, str(layers["merged"])]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        pytest.skip(
            f"this machine mounts no overlayfs on {tmp_path} ({result.stderr.strip()}): run it as"
            " root of the machine with --basetemp on a file system that is no overlay itself"
        )
    yield layers["merged"]
    # Lazily: a program that failed may have left a child behind.
    subprocess.run(["umount", "--lazy", str(layers["merged"])], check=True)


@pytest.fixture(scope="session")
def gated(build: pathlib.Path) -> frozenset[str]:
    """The gated names: the exports of the linker's script, which is made from symbols.def."""
    text = (build / "exports.map").read_text()
    return frozenset(re.findall(r"\b(\w+);", text))


@pytest.fixture
def root(tmp_path: pathlib.Path, build: pathlib.Path, driver: pathlib.Path) -> Root:
    """A container's root, with /bin/client in it."""
    if os.geteuid() != 0:
        pytest.skip("chroot needs root: run it as root")
    if platform.machine() != "x86_64":
        pytest.skip(f"the root is made for x86-64, this is {platform.machine()}: run it on x86-64")
    made = Root(tmp_path / "root", build, driver)
    tmp_path.chmod(0o755)
    client = made.add(compiled(tmp_path, "client.c", "client"))
    made.add_needed(client)
    return made
