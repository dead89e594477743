"""Uninstall proves the removal of every file that it removes by name."""

import collections.abc
import re
from typing import Any

import pytest

from tests.ansible import layout

FOLDER = layout.ROOT / "roles"
VARIABLES = layout.load(FOLDER / "preflight/vars/main.yml")
ROOTS = [
    each.replace("{{ __preflight_extender_unit }}", VARIABLES["__preflight_extender_unit"])
    for each in VARIABLES["__preflight_roots"]
]
# Files of an uninstall beside its own.
MORE = {"gpustack_agent": ["leases.yml"], "kube_scheduler": ["uninstall_own.yml"]}
# Of the agent's uninstall: names in the state folder, which a site may choose.
STATE = "Look for checkpoint, driver volumes and container folders"


def tasks(path: str) -> collections.abc.Iterator[dict[str, Any]]:
    """Yield the tasks of a file, those of blocks too."""
    waiting: list[dict[str, Any]] = list(layout.load(FOLDER / path))
    for task in waiting:
        waiting += task.get("block", [])
        yield task


def removed(role: str) -> set[str]:
    """Return the fixed paths that a role's uninstall removes."""
    variables = layout.load(FOLDER / role / "vars/main.yml") if role != "nvidia_uvm" else {}
    found: set[str] = set()
    files = ["uninstall.yml", *MORE.get(role, ())]
    for task in (each for file in files for each in tasks(f"{role}/tasks/{file}")):
        module = task.get("ansible.builtin.file", {})
        if module.get("state") == "absent":
            named = [module["path"], *(task["loop"] if isinstance(task.get("loop"), list) else [])]
            found.update(
                re.sub(r"{{ (\w+) }}", lambda match: str(variables.get(match[1], match[0])), each)
                for each in named
            )
    return {path for path in found if path.startswith("/") and "{{" not in path}


@pytest.mark.parametrize(
    "role",
    ["gpustack_agent", "gpustack_extender", "kube_scheduler", "nvidia_driver", "nvidia_uvm"],
)
def test_every_fixed_path_that_uninstall_removes_is_looked_for(role: str) -> None:
    paths = removed(role)
    assert paths
    assert [
        path for path in paths if not any(f"{path}/".startswith(f"{root}/") for root in ROOTS)
    ] == []


def test_every_state_that_uninstall_removes_is_looked_for() -> None:
    [task] = [each for each in tasks("gpustack_agent/tasks/uninstall.yml") if each["name"] == STATE]
    names = {each for each in task["ansible.builtin.find"]["patterns"] if "*" not in each}
    assert "checkpoint.json" in names
    assert names - {root.rpartition("/")[2] for root in ROOTS} == set()
