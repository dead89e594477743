"""A part of preflight on this machine, as if it were the host `gpu1`."""

import pathlib
from typing import Any

import yaml

from tests.ansible.rendering import ansible, words


def play(
    folder: pathlib.Path, part: str, variables: dict[str, Any], *arguments: str
) -> tuple[int, str]:
    """Run it; returns the exit status and the output.

    Args:
        folder: of this host; programs in its folder `programs` go before this machine's.
        part: the role's file of tasks.
        variables: the inventory's.
        arguments: of ansible-playbook.
    """
    variables = {
        "preflight_kind": "gpu_node",
        "ansible_become": False,
        **variables,
    }
    task = {"import_role": {"name": "preflight", "tasks_from": part}}
    document = [{"hosts": "all", "gather_facts": False, "tasks": [task]}]
    (folder / "play.yml").write_text(yaml.safe_dump(document))
    inventory = {"all": {"hosts": {"gpu1": {"ansible_connection": "local", **variables}}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    done = ansible(
        "ansible-playbook", f"--inventory={folder}/hosts.yml", *arguments, f"{folder}/play.yml",
        programs=folder / "programs",
    )  # fmt: skip
    return done.returncode, words(done)


def write_program(folder: pathlib.Path, name: str, text: str) -> None:
    """Write a shell script into the host's programs."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / name).write_text(f"#!/bin/sh\n{text}\n")
    (programs / name).chmod(0o755)
