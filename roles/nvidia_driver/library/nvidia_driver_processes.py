"""Finds the processes outside of pods that have a card of the host open."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: nvidia_driver_processes
short_description: Find the processes outside of pods that have a card open
description:
  - Returns C(processes), a text for each (C(PID (NAME))), by PID. Those of pods aren't meant, nor
    gpustack's daemons and NVIDIA's own (C(nvidia-persistenced), C(nvidia-fabricmanager),
    C(nvidia-dcgm)), which start again with the driver.
  - Needs no driver, whose programs don't answer where its files were changed since it was loaded.
  - Changes nothing.
options:
  proc_path: {type: path, default: /proc, description: The proc file system.}
"""

# A card's node; a program may have it open that a boot, or a container, has taken away since.
_CARD = re.compile(r"/dev/nvidia\d+(?: \(deleted\))?")
# A pod's cgroup has `kubepods` in its path, with either driver of a kubelet's. Daemons by units.
_OTHERS = re.compile(r"kubepods|/(?:gpustack|nvidia)-[^/\n]*\.service")


def processes(proc_path: pathlib.Path) -> list[str]:
    """Return `PID (NAME)` of each process outside of pods that has a card open, by PID."""
    pids = sorted(int(entry) for entry in os.listdir(proc_path) if entry.isdigit())
    return [f"{pid} ({name})" for pid in pids for name in _name_of_user(proc_path / str(pid))]


def _name_of_user(process: pathlib.Path) -> Iterator[str]:
    try:
        if not _has_a_card(process):
            return
        if not _OTHERS.search(_cgroups(process)):
            yield (process / "comm").read_text(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return  # it has ended


def _cgroups(process: pathlib.Path) -> str:
    try:
        # any account may have made cgroups of its own, with any bytes for a name
        return (process / "cgroup").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise
    except OSError:
        return ""  # ... or so deep that the kernel doesn't tell the path: it is in no pod for us


def _has_a_card(process: pathlib.Path) -> bool:
    for descriptor in os.listdir(process / "fd"):
        try:
            if _CARD.fullmatch(os.readlink(process / "fd" / descriptor)):
                return True
        except FileNotFoundError:
            continue  # closed since
    return False


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {"proc_path": {"type": "path", "default": "/proc"}}, supports_check_mode=True
    )
    try:
        found = processes(pathlib.Path(module.params["proc_path"]))
    except OSError as error:
        module.fail_json(msg=f"The host's processes can't be read: {error}")
    module.exit_json(processes=found)


if __name__ == "__main__":
    main()
