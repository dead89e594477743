"""The commands of our pages name playbooks and variables that there are."""

import itertools
import json
import re
import shlex

import pytest

from tests.ansible import layout
from tests.ansible.rendering import ansible

PAGES = "".join(each.read_text("utf-8") for each in sorted((layout.ROOT / "docs").glob("*.md")))
COMMANDS = [
    shlex.split(line)
    for line in re.findall(r"^ansible-playbook .*", PAGES.replace("\\\n", ""), re.MULTILINE)
]


def words(playbook: str) -> str:
    """Return a playbook's text, with those that it imports."""
    path = layout.ROOT / playbook
    text = path.read_text("utf-8")
    parts = re.findall(r"import_playbook: (\S+)", text)
    return text + "".join(words(str((path.parent / part).resolve())) for part in parts)


def variables(extra: str) -> list[str]:
    return list(json.loads(extra)) if extra.startswith("{") else [extra.partition("=")[0]]


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) >= 2


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_of_the_page_is_one_of_ours(command: list[str]) -> None:
    here = ["inventories/example" if word == "inventories/mysite" else word for word in command]
    done = ansible(*here, "--syntax-check")
    assert done.returncode == 0, done.stdout + done.stderr
    [playbook] = [word for word in command if word.endswith(".yml")]
    given = [extra for word, extra in itertools.pairwise(command) if word == "--extra-vars"]
    for name in (name for extra in given for name in variables(extra)):
        assert re.search(rf"\b{name}\b", words(playbook)), name


@pytest.mark.parametrize("playbook", ["remove_host"])
def test_every_variable_of_a_playbook_is_on_a_page(playbook: str) -> None:
    used = set(re.findall(rf"(?<!\w){playbook}(?:_\w+)?", words(f"playbooks/{playbook}.yml")))
    named = {name for name in used if f"{name}=" in PAGES or f'"{name}":' in PAGES}
    assert used - {f"{playbook}_questions"} == named
