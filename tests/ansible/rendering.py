"""Ansible as the product runs it, and the templates that it renders with the roles' defaults."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import yaml

from tests.ansible import layout
from tests.ansible.fork_server import server
from tests.testbed import paths


def ansible(
    program: str,
    *arguments: str,
    programs: pathlib.Path | None = None,
    roles: pathlib.Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs as a user would: our ansible.cfg, a clean environment.

    Args:
        program: its name.
        arguments: its arguments.
        programs: a folder with programs that go before this machine's.
        roles: a folder of roles that stand in for the product's.
        settings: more variables of its environment.
    """
    found = shutil.which(
        program, path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    assert found, f"{program} is not installed: pip install --requirement requirements.lock"
    folders = [*([programs] if programs else []), pathlib.Path(found).parent]
    python = {
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(layout.ROOT / "tests/ansible/compiled"),
        "GPUSTACK_COMPILED": str(paths.cache("ansible-compiled")),
    }
    environment = {
        "PATH": ":".join([*map(str, folders), "/usr/sbin:/usr/bin:/sbin:/bin"]),
        "HOME": str(pathlib.Path.home()),
        **python,
        "GPUSTACK_FORK_SERVER": server.start(**python),
        # Ansible needn't look for one on this machine, for each run anew
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_CONNECTION_PLUGINS": str(layout.ROOT / "tests/ansible/fork_server/connection"),
        # templates are rendered outside their role, where Ansible would find its filters by itself
        "ANSIBLE_FILTER_PLUGINS": str(layout.ROOT / "roles/kube_scheduler/filter_plugins"),
        **(settings or {}),
    }
    if roles:
        environment["ANSIBLE_ROLES_PATH"] = str(roles)
    return subprocess.run(
        [found, *arguments],
        cwd=layout.ROOT,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )


def run_role(
    folder: pathlib.Path,
    role: str,
    part: str,
    variables: Mapping[str, object],
    *options: str,
    programs: pathlib.Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a part of a role on this machine, as a play in a folder; else as ``ansible``."""
    task = {
        "ansible.builtin.import_role": {"name": role, "tasks_from": part},
        "vars": dict(variables),
    }
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [task]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    return ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local", *options,
        str(folder / "play.yml"), programs=programs, settings=settings,
    )  # fmt: skip


def text_of(
    folder: pathlib.Path, role: str, expression: str, variables: Mapping[str, object]
) -> str:
    """Return what a Jinja expression comes to, by a role's defaults and vars and these variables.

    Args:
        folder: for the play.
        role: its name.
        expression: of a text without ``>``.
        variables: of the inventory.
    """
    parts = (layout.ROOT / "roles" / role / part / "main.yml" for part in ("defaults", "vars"))
    told = {"debug": {"msg": f"<{{{{ {expression} }}}}>"}}
    tasks = [*({"include_vars": str(path)} for path in parts), told]
    said = played_here(folder, {"tasks": tasks}, variables)
    return said.partition("<")[2].partition(">")[0]


def played_here(folder: pathlib.Path, play: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
    """Run a play on this machine, which succeeds; returns what Ansible says.

    Args:
        folder: for the play.
        play: without its hosts.
        variables: of the inventory.
    """
    whole = {"hosts": "localhost", "gather_facts": False, **play}
    (folder / "play.yml").write_text(json.dumps([whole]))
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local",
        f"--extra-vars={json.dumps(variables)}", str(folder / "play.yml"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def words(done: subprocess.CompletedProcess[str]) -> str:
    """Return a play's output, without the line breaks that Ansible puts into messages."""
    return " ".join(done.stdout.split())


def render(
    folder: pathlib.Path, *, settings: Mapping[str, str] | None = None, **variables: object
) -> pathlib.Path:
    """Render every unit and configuration into an empty folder, which is returned.

    Args:
        folder: where they go.
        settings: as ``ansible`` has them.
        variables: values that differ from the roles' defaults.
    """
    bundle = folder / "bundle"
    bundle.mkdir()
    hook = {"build": "0.1.0-01234567", "files": {}}
    (bundle / "manifest.json").write_text(json.dumps({"hook": {platform.machine(): hook}}))
    output = folder / "rendered.json"
    extra = {
        "output": str(output),
        "roles": str(layout.ROOT / "roles"),
        "gpustack_agent_bundle": str(bundle),
        "gpustack_extender_bundle": str(bundle),
        **variables,
    }
    done = ansible(
        "ansible-playbook",
        "--inventory=localhost,",
        f"--extra-vars={json.dumps(extra)}",
        str(layout.ROOT / "tests" / "ansible" / "render.yml"),
        settings=settings,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name, text in json.loads(output.read_text("utf-8")).items():
        (folder / name).write_text(text, "utf-8")
    output.unlink()
    return folder
