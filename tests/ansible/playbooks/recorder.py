"""Runs the product's playbooks with roles that only record their hosts.

Plays, batches and the rules that stop them are the product's own; the hosts are all this machine.
"""

import dataclasses
import json
import pathlib
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.ansible import layout
from tests.ansible.rendering import ansible

CHECKS = ("preflight", "in_place", "cluster", "everyone", "installed_agent", "removal")
OWN = ("everyone.yml", "left_out.yml")  # tasks of the role preflight
# A host's variables: `fails`, `vanishes` and `differs` list roles (or ROLE/TASKS) that do so on it.
VANISH: dict[str, Any] = {
    "name": "Vanish where told",
    "ansible.builtin.ping": {},
    "vars": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
    "when": "recorded in vanishes | default([])",
}
RECORD: dict[str, Any] = {
    "name": "Record",
    "ansible.builtin.debug": {"msg": "{{ 'told to' if told else came }}"},
    "vars": {
        "told": "{{ recorded in fails | default([]) }}",
        "batch": "{{ ansible_play_batch | join(',') }}",
        "came": "[{{ recorded }}] came to {{ inventory_hostname }} of {{ batch }}",
    },
    "changed_when": "recorded in differs | default([])",
    "failed_when": "told",
}
LABELS: dict[str, Any] = {
    "name": "Write down whose nodes it was given",
    "ansible.builtin.debug": {
        "msg": "[{{ recorded }}] labels the nodes of [{{ whose | join(' ') }}]"
    },
    "vars": {"whose": "{{ cluster_objects_gpu_hosts }}"},
    "when": "cluster_objects_gpu_hosts is defined",
}


class Entry(NamedTuple):
    """A role's end on a host, which was one of a batch."""

    role: str
    host: str
    batch: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of a playbook's run: its exit status, its words, and the hosts of each role."""

    status: int
    output: str
    entries: Sequence[Entry]

    def hosts(self, role: str) -> list[str]:
        """Return the hosts on which a role came to its end."""
        return sorted(entry.host for entry in self.entries if entry.role == role)

    def batches(self, role: str) -> list[tuple[str, ...]]:
        """Return the batches in which a role ran, in order."""
        found = [entry.batch for entry in self.entries if entry.role == role]
        return list(dict.fromkeys(found))

    @property
    def changed(self) -> list[str]:
        """Return the hosts on which another role than a check ran."""
        return sorted(
            {one.host for one in self.entries if one.role.rpartition("/")[2] not in CHECKS}
        )


def lay_roles(folder: pathlib.Path, *before: dict[str, Any]) -> None:
    """Lay a recording role for each of the product's, with the same entry points.

    Preflight's checks of a whole run are the product's own.

    Args:
        folder: where they go.
        before: tasks that each entry point begins with.
    """
    for role in layout.ROLES:
        tasks = folder / role / "tasks"
        tasks.mkdir(parents=True)
        for entry in (layout.ROOT / "roles" / role / "tasks").glob("*.yml"):
            recorded = role if entry.stem == "main" else f"{role}/{entry.stem}"
            after = [LABELS] if role == "cluster_objects" else []
            block = [*before, RECORD, *after]
            document = [{"name": "Entry", "vars": {"recorded": recorded}, "block": block}]
            (tasks / entry.name).write_text(json.dumps(document))
    for name in OWN:
        own = layout.ROOT / "roles" / "preflight" / "tasks" / name
        if own.exists():
            (folder / "preflight" / "tasks" / name).write_text(own.read_text("utf-8"))


def play(
    folder: pathlib.Path,
    groups: Mapping[str, Mapping[str, Any]],
    *arguments: str,
    playbook: str = "site.yml",
    settings: Mapping[str, str] | None = None,
) -> Run:
    """Run a playbook, for groups of hosts with their variables.

    Args:
        folder: a new folder.
        groups: group name to host name to the host's variables.
        arguments: more of ansible-playbook's.
        playbook: its path in the repository.
        settings: more variables of Ansible's environment.
    """
    common = {
        "ansible_connection": "local",
        "ansible_become": False,
        # the tests need no facts; a ping takes a tenth of the time
        "ansible_facts_modules": ["ansible.builtin.ping"],
        # is there: hosts that a run leaves out have been set up
        "__preflight_extender_unit": f"{folder}/hosts.yml",
    }
    inventory = {"all": {"vars": common, "children": {g: {"hosts": h} for g, h in groups.items()}}}
    (folder / "hosts.yml").write_text(json.dumps(inventory))
    # Each task takes its time of each host.
    vanish = (
        [VANISH] if any("vanishes" in host for h in groups.values() for host in h.values()) else []
    )
    lay_roles(folder / "roles", *vanish)
    done: subprocess.CompletedProcess[str] = ansible(
        "ansible-playbook", f"--inventory={folder}/hosts.yml", "--forks=4", *arguments, playbook,
        roles=folder / "roles", settings=settings,
    )  # fmt: skip
    output = done.stdout + done.stderr
    entries = [
        Entry(role, host, tuple(sorted(batch.split(","))))
        for role, host, batch in re.findall(r"\[(\S+)\] came to (\S+) of ([\w,]+)", output)
    ]
    return Run(status=done.returncode, output=output, entries=entries)
