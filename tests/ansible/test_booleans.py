"""A boolean of `key=value` or of an INI inventory is a text, and "false" is as good as false."""

import pathlib
import re
import sys
from collections.abc import Iterator

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible

ROLES = layout.ROOT / "roles"
# In a condition, or in front of a filter; one that is only handed on is converted by its reader.
READ = (
    r"(?:(?:\bif|\bnot|when:|^ *-) +{0}\b|\b{0}(?= *\|))"
    r"(?! *(?:\| *default\(.*?\) *)?(?:\| *bool|}}}}))"
)


def booleans() -> Iterator[str]:
    for specs in ROLES.glob("*/meta/argument_specs.yml"):
        for entry in layout.load(specs)["argument_specs"].values():
            for name, option in entry.get("options", {}).items():
                if option["type"] == "bool":
                    yield name


@pytest.mark.parametrize("name", sorted(set(booleans())))
def test_every_boolean_is_converted_where_it_is_read(name: str) -> None:
    files = (
        file
        for kind in ("tasks", "handlers", "vars", "templates", "defaults")
        for file in ROLES.glob(f"*/{kind}/*")
    )
    read = re.compile(READ.format(name), re.MULTILINE)
    assert [str(file) for file in files if read.search(file.read_text("utf-8"))] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("role", "task", "said"),
    [
        ("nvidia_driver", "Remove them", "nvidia_driver_remove_on_uninstall=false"),
        (
            "gpustack_agent",
            "Remove checkpoint, driver volumes and container folders",
            "gpustack_agent_keep_state=true",
        ),
    ],
)
def test_uninstall_leaves_what_the_command_line_says(
    tmp_path: pathlib.Path, role: str, task: str, said: str
) -> None:
    tasks = layout.load(ROLES / role / "tasks" / "uninstall.yml")
    (condition,) = (each["when"] for each in tasks if each["name"] == task)
    asked = {
        "name": "Ask",
        "ansible.builtin.debug": {"msg": "it goes"},
        "vars": {"__nvidia_driver_recorded": ["libcuda1"]},
        "when": condition,
    }
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [asked]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local",
        f"--extra-vars=ansible_python_interpreter={sys.executable}", f"--extra-vars={said}",
        str(tmp_path / "play.yml"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it goes" not in done.stdout
