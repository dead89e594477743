"""A module that the fork server runs and one that Ansible starts by itself see and do the same."""

import json
import pathlib
import sys
from typing import Any

import pytest
import yaml

from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

# What a module sees of the process it runs in, and where its own code comes from.
SEES = """
import gc, os, signal, sys
from ansible.module_utils import _internal, basic, words
def main():
    module = basic.AnsibleModule({"word": {"type": "str"}}, supports_check_mode=True)
    words.heard.append(module.params["word"])
    module.exit_json(
        parent=os.getppid(), folder=os.getcwd(), name=__name__,
        argv=[os.path.basename(each) for each in sys.argv],
        environment=dict(os.environ), input=sys.stdin.read(), heard=words.heard,
        controller=_internal.is_controller, check=module.check_mode, umask=os.umask(0o22),
        words=os.path.basename(words.__file__), zip=words.__file__.count(".zip/"),
        child=signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL,
        path=[each for each in sys.path if not each.endswith(".zip")],
    )
main()
"""
# What it may end by, other than a result.
ENDS = """
import os, signal, sys
from ansible.module_utils import basic
how = basic.AnsibleModule({"how": {"type": "str"}}).params["how"]
if how == "exit":
    print("said", file=sys.stderr)
    sys.exit(7)
if how == "words":
    sys.exit("in words")
if how == "raise":
    raise ValueError("of a module")
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""
ENDINGS = ("exit", "words", "raise", "kill")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what each task gave on the hosts `forked` and `plain`, which are this machine."""
    folder = tmp_path_factory.mktemp("fork-server")
    for path, text in (
        ("library/sees.py", SEES),
        ("library/ends.py", ENDS),
        ("module_utils/words.py", "heard = []\n"),
    ):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(f"#!/usr/bin/python\n{text}")
    tasks: list[dict[str, Any]] = [
        {"sees": {"word": "first"}, "register": "first"},
        {"sees": {"word": "second"}, "register": "second"},
        {"sees": {"word": "third"}, "environment": {"SAID": "'yes' =1"}, "register": "third"},
        {"sees": {"word": "apart"}, "environment": {"KUBECONFIG": "/a"}, "register": "apart"},
    ]
    for how in ENDINGS:
        ends = {"ends": {"how": how}, "register": how}
        tasks.append({**ends, "ignore_errors": True, "ignore_unreachable": True})
    wanted = ["first", "second", "third", "apart", *ENDINGS]
    kept = f"{{{{ dict({wanted} | zip({wanted} | map('extract', vars))) | to_json }}}}"
    tasks.append({"copy": {"content": kept, "dest": f"{folder}/{{{{ inventory_hostname }}}}.json"}})
    (folder / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}])
    )
    python = pathlib.Path(sys.executable)
    # The same program by another path, which the fork server doesn't take for the controller's.
    pythons = {"forked": python, "plain": f"{python.parent}/../{python.parent.name}/{python.name}"}
    hosts = {
        name: {"ansible_connection": "local", "ansible_python_interpreter": str(path)}
        for name, path in pythons.items()
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    done = ansible("ansible-playbook", f"--inventory={folder}/hosts.yml", f"{folder}/play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in hosts}


@pytest.mark.parametrize("task", ["first", "second", "third", "apart"])
def test_a_module_sees_what_it_sees_without_the_server(results: dict[str, Any], task: str) -> None:
    forked, plain = ({**results[host][task], "parent": 0} for host in ("forked", "plain"))
    assert forked["zip"] == 1
    assert forked == plain


def test_modules_are_children_of_the_server(results: dict[str, Any]) -> None:
    forked, plain = (
        [results[host][task]["parent"] for task in ("first", "second", "third", "apart")]
        for host in ("forked", "plain")
    )
    assert len(set(plain)) == 4
    assert len(set(forked[:3])) == 1
    assert forked[3] != forked[0]  # what it was given is read when Kubernetes' client is imported


def test_a_module_sees_nothing_of_the_one_before(results: dict[str, Any]) -> None:
    assert results["forked"]["second"]["heard"] == ["second"]


def test_an_environment_of_a_task_reaches_its_module(results: dict[str, Any]) -> None:
    assert results["forked"]["third"]["environment"]["SAID"] == "'yes' =1"


@pytest.mark.parametrize("how", ["exit", "words", "raise"])
def test_a_module_ends_as_without_the_server(results: dict[str, Any], how: str) -> None:
    forked, plain = (results[host][how] for host in ("forked", "plain"))
    assert forked["failed"]
    assert {**forked, "exception": ""} == {**plain, "exception": ""}


def test_a_module_that_is_killed_fails(results: dict[str, Any]) -> None:
    assert results["forked"]["kill"]["failed"]
    assert "a module's process was killed" in results["forked"]["kill"]["msg"]
