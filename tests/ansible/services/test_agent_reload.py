"""A changed agent.yml restarts the agent only where the running one can't take it over."""

import json
import pathlib

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible

_NAMES = ("Let the agent take over its configuration", "Restart an agent that can't take it over")
_SYSTEMCTL = """\
#!/bin/sh
case "$1" in
show) printf 'LoadState=loaded\\nActiveState=active\\nUnitFileState=enabled\\n' ;;
*) echo "$@" >> "{log}" ;;
esac
"""


def play(folder: pathlib.Path, status: int, said: str) -> tuple[str, str]:
    """Run the role's last tasks on an agent that answers so; return the output and restarts."""
    programs, log = folder / "bin", folder / "systemctl.log"
    programs.mkdir()
    log.touch()
    for name, text in {
        "systemctl": _SYSTEMCTL.format(log=log),
        "gpustack-agent": f"#!/bin/sh\necho '{said}'\nexit {status}\n",
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    tasks = layout.load(layout.ROOT / "roles/gpustack_agent/tasks/configure.yml")
    chosen = [each for each in tasks if each["name"] in _NAMES]
    assert len(chosen) == len(_NAMES)
    one = {"hosts": "localhost", "gather_facts": False, "tasks": chosen}
    (folder / "play.yml").write_text(yaml.safe_dump([one]))
    values = {
        "__gpustack_agent_program": str(programs / "gpustack-agent"),
    }
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local",
        f"--extra-vars={json.dumps(values)}", str(folder / "play.yml"), programs=programs,
    )  # fmt: skip
    return done.stdout, log.read_text()


@pytest.mark.long
def test_an_agent_that_takes_its_configuration_over_runs_on(tmp_path: pathlib.Path) -> None:
    output, restarts = play(tmp_path, 0, "reloaded: log_level")
    assert "changed=1" in output
    assert restarts == ""


@pytest.mark.long
def test_an_unchanged_configuration_changes_nothing(tmp_path: pathlib.Path) -> None:
    output, restarts = play(tmp_path, 0, "nothing has changed")
    assert "changed=0" in output
    assert restarts == ""


@pytest.mark.long
def test_an_agent_that_can_not_take_it_over_is_restarted(tmp_path: pathlib.Path) -> None:
    output, restarts = play(tmp_path, 1, "")
    assert "failed=0" in output
    assert "restart gpustack-agent.service" in restarts


@pytest.mark.long
def test_a_reload_that_fails_otherwise_fails_the_host(tmp_path: pathlib.Path) -> None:
    output, restarts = play(tmp_path, 2, "")
    assert "failed=1" in output
    assert restarts == ""
