"""What an import or a block inherits as its condition is asked again before each of its tasks.

A task that sets a variable of that condition changes the answer for the tasks after it, and one
that is skipped registers a result without any of the keys that the condition reads.
"""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ansible import layout

IMPORT = "ansible.builtin.import_tasks"
SECTIONS = ("block", "rescue", "always")
FOLDERS = [*(f"roles/{role}/tasks" for role in layout.ROLES), "playbooks", "playbooks/tasks"]


def flat(tasks: list[dict[str, Any]], folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Give all tasks that run in place of a list's, in their order."""
    for task in tasks:
        inner = [each for section in SECTIONS for each in task.get(section, ())]
        if IMPORT in task:
            inner = layout.load(folder / task[IMPORT])
        yield from flat(inner, folder) if inner else [task]


def groups(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give the imports and blocks that have a condition, those in others too."""
    for task in tasks:
        if "when" in task and ("block" in task or IMPORT in task):
            yield task
        for section in ("tasks", *SECTIONS):
            yield from groups(task.get(section, []))


def read_by(text: str, variables: dict[str, Any]) -> str:
    """Return an expression with those of the variables that it reads, and that they read."""
    seen: set[str] = set()
    while found := {
        name for name in variables if name not in seen and re.search(rf"\b{name}\b", text)
    }:
        seen |= found
        text += "".join(f" {variables[name]}" for name in sorted(found))
    return text


def judged_again(folder: pathlib.Path) -> Iterator[str]:
    """Give each group of tasks that sets what its own condition reads, before its last task."""
    file = folder.parent / "vars" / "main.yml"
    variables = (layout.load(file) or {}) if file.exists() else {}
    for path in sorted(folder.glob("*.yml")):
        for group in groups(layout.load(path)):
            condition = read_by(str(group["when"]), variables | group.get("vars", {}))
            for task in list(flat([group], folder))[:-1]:
                facts = task.get("ansible.builtin.set_fact", {})
                for name in {*facts, task.get("register")} - {None}:
                    if re.search(rf"\b{name}\b", condition):
                        yield f"{path.name}: {group['name']}: {task['name']} sets {name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_condition_reads_what_the_tasks_under_it_set(folder: str) -> None:
    assert list(judged_again(layout.ROOT / folder)) == []
