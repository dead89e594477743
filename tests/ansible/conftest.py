"""What the render tests share: Ansible as the product runs it, and its output."""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import pytest

from tests.ansible import layout


def ansible(
    program: str,
    *arguments: str,
    programs: pathlib.Path | None = None,
    roles: pathlib.Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one of Ansible's programs as a user would: our ansible.cfg, a clean environment.

    Args:
        program: its name.
        arguments: its arguments.
        programs: a folder whose programs go before this machine's.
        roles: a folder of roles that stand in for the product's.
    """
    found = shutil.which(
        program, path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    assert found, f"{program} is not installed: pip install --requirement requirements.lock"
    folders = [*([programs] if programs else []), pathlib.Path(found).parent]
    environment = {
        "PATH": ":".join([*map(str, folders), "/usr/sbin:/usr/bin:/sbin:/bin"]),
        "HOME": str(pathlib.Path.home()),
        "LANG": "C.UTF-8",
        # templates are rendered outside their role, where Ansible would find its filters by itself
        "ANSIBLE_FILTER_PLUGINS": str(layout.ROOT / "roles/kube_scheduler/filter_plugins"),
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


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with every unit and configuration, rendered with the roles' defaults."""
    output = tmp_path_factory.mktemp("rendered")
    bundle = tmp_path_factory.mktemp("bundle")
    hook = {"build": "0.1.0-01234567", "files": {}}
    (bundle / "manifest.json").write_text(json.dumps({"hook": {platform.machine(): hook}}))
    extra = {
        "output": str(output),
        "roles": str(layout.ROOT / "roles"),
        "gpustack_agent_bundle": str(bundle),
    }
    done = ansible(
        "ansible-playbook",
        "--inventory=localhost,",
        f"--extra-vars={json.dumps(extra)}",
        str(layout.ROOT / "tests" / "ansible" / "render.yml"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return output
