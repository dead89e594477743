"""CDI on a host: the agent's unit may write the spec, and uninstall removes it."""

import pathlib

import pytest
import yaml

from gpustack.agent.cdi.spec_file import NAME
from gpustack.wire import config
from tests.ansible import layout
from tests.ansible.rendering import ansible, render

pytestmark = pytest.mark.long

MKDIR = "ExecStartPre=+/bin/mkdir -p /opt/cdi"


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the rendered files of a host with CDI."""
    folder = tmp_path_factory.mktemp("cdi")
    return render(folder, gpustack_agent_cdi="yes", gpustack_agent_cdi_path="/opt/cdi")


def test_the_variables_reach_the_agent(on: pathlib.Path) -> None:
    loaded = config.load_config(on / "agent.yml", "agent")
    assert loaded["cdi"] == {"enabled": True, "spec_dir": "/opt/cdi"}


def test_the_unit_makes_the_folder_before_it_may_write_there(on: pathlib.Path) -> None:
    lines = (on / "gpustack-agent.service").read_text("utf-8").splitlines()
    (program,) = (at for at, line in enumerate(lines) if line.startswith("ExecStart="))
    assert lines.index(MKDIR) < program
    assert "ReadWritePaths=-/opt/cdi" in lines


def test_without_cdi_the_unit_makes_no_folder(rendered: pathlib.Path) -> None:
    """It may remove what an agent with the option has left."""
    text = (rendered / "gpustack-agent.service").read_text("utf-8")
    assert "mkdir" not in text
    assert "ReadWritePaths=-/var/run/cdi" in text.splitlines()


def test_uninstall_removes_the_spec_and_no_other(tmp_path: pathlib.Path) -> None:
    for name in (NAME, f".{NAME}.new", "nvidia.yaml"):
        (tmp_path / name).touch()
    tasks = layout.load(layout.ROOT / "roles/gpustack_agent/tasks/uninstall.yml")
    variables = {
        "gpustack_agent_cdi_path": str(tmp_path),
    }
    chosen = [each for each in tasks if each["name"] == "Remove the CDI spec"]
    play = {"hosts": "h", "gather_facts": False, "vars": variables, "tasks": chosen}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = ansible(
        "ansible-playbook", "--inventory=h,", "--connection=local", str(tmp_path / "play.yml")
    )
    assert done.returncode == 0, done.stdout
    assert "changed=1" in done.stdout
    assert sorted(each.name for each in tmp_path.iterdir()) == ["nvidia.yaml", "play.yml"]
