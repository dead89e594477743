"""A process in a container: the devices, the files and the hook that its Allocate answer names."""

import contextlib
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from gpustack.adapters import mapped
from tests.hook.container import CLIENT
from tests.simgpu_tests.machine import Machine


def mounts(answer: Any) -> dict[str, pathlib.Path]:
    """Return the host's paths of an answer's mounts, by their paths in the container."""
    return {each.container_path: pathlib.Path(each.host_path) for each in answer.mounts}


def hook_of(answer: Any) -> pathlib.Path | None:
    """Return the library that ld.so loads first in a container; None where it finds none.

    ld.so passes over a path that isn't there, and the program runs without it.
    """
    mounted = mounts(answer)
    preload = mounted.get("/etc/ld.so.preload")
    if preload is None:
        return None
    path = pathlib.PurePath(preload.read_text().strip())
    folder = mounted.get(str(path.parent))
    return None if folder is None else folder / path.name


def folder(answer: Any, paths: Mapping[str, str]) -> pathlib.Path:
    """Return the host's folder of the files that a hook reads at these paths, by their names."""
    mounted = mounts(answer)
    (found,) = {mounted[path].parent for path in paths.values()}
    return found


def layouts(answer: Any, paths: Mapping[str, str]) -> list[int]:
    """Return the layout of each of these files."""
    return [mapped.read_layout(folder(answer, paths) / name) for name in paths]


def minor(answer: Any) -> int:
    """Return the card that a container gets."""
    names = [pathlib.Path(each.host_path).name for each in answer.devices]
    (found,) = (int(name[6:]) for name in names if name[6:].isdigit())
    return found


@contextlib.contextmanager
def start(
    machine: Machine, devices: pathlib.Path, answer: Any, paths: Mapping[str, str], source: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run a Python client as a container's process until the block ends.

    Args:
        machine: whose driver it uses.
        devices: gets stand-ins for its device nodes.
        answer: of Allocate.
        paths: where the hook reads its files in a container, by their names.
        source: what it does after `tests.hook.container.CLIENT`.
    """
    devices.mkdir(exist_ok=True)
    for each in answer.devices:
        (devices / pathlib.Path(each.host_path).name).touch()
    environment = machine.env | {"SIMGPU_DEV": str(devices)}
    work, hook = devices, hook_of(answer)
    if hook is not None:
        # The tests' variant of the hook reads its files from the working folder.
        work = folder(answer, paths)
        environment["LD_PRELOAD"] = str(hook)
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT + textwrap.dedent(source)],
        cwd=work,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
