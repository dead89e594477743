"""The shipped inventories parse, and every playbook is valid with them."""

import json
import re

import pytest

from tests.ansible import layout
from tests.ansible.rendering import ansible

# Keywords that Ansible evaluates when a play begins (always_post_validate in its playbook/play.py
# and base.py), and `any_errors_fatal`: Ansible takes a template of that for true, unevaluated.
KEYWORDS = {
    "any_errors_fatal", "force_handlers", "gather_facts", "gather_subset", "gather_timeout",
    "hosts", "import_playbook", "max_fail_percentage", "name", "order", "serial", "strategy",
    "vars_prompt",
}  # fmt: skip
INVENTORIES = ("example", "demo", "own", "onebox")
SCHEDULERS = {"own": ["sched1", "sched2"], "onebox": ["box"]}
# site.yml imports preflight, cluster, control_plane and gpu_nodes.
PLAYBOOKS = ("site.yml", "playbooks/verify.yml", "playbooks/uninstall.yml")


@pytest.mark.long
@pytest.mark.parametrize("name", INVENTORIES)
def test_the_inventory_has_both_groups(name: str) -> None:
    done = ansible("ansible-inventory", f"--inventory=inventories/{name}", "--list")
    assert done.returncode == 0, done.stderr
    groups = json.loads(done.stdout)
    planes = groups["kube_control_plane"]
    members = [planes, *(groups[child] for child in planes.get("children", ()))]
    found = [host for group in members for host in group.get("hosts", ())]
    assert found == SCHEDULERS.get(name, ["cp1"])
    assert groups["gpu_nodes"]["hosts"] == (["box"] if name == "onebox" else ["gpu1", "gpu2"])


@pytest.mark.long
@pytest.mark.parametrize("name", INVENTORIES)
def test_the_inventory_sets_only_variables_that_a_role_has(name: str) -> None:
    known = {option for role in layout.ROLES for option in layout.options(role)}
    done = ansible("ansible-inventory", f"--inventory=inventories/{name}", "--list")
    for host, variables in json.loads(done.stdout)["_meta"]["hostvars"].items():
        ours = {
            key for key in variables if key.startswith(tuple(f"{role}_" for role in layout.ROLES))
        }
        assert ours <= known, host


@pytest.mark.long
def test_the_demo_asks_for_the_simulated_driver_by_name() -> None:
    done = ansible("ansible-inventory", "--inventory=inventories/demo", "--host=gpu1")
    variables = json.loads(done.stdout)
    assert variables["nvidia_driver_packages"] == ["simgpu-driver"]
    assert variables["nvidia_driver_repository_uris"] == ["file:/opt/simgpu-repository"]


@pytest.mark.long
def test_every_playbook_is_valid() -> None:
    done = ansible(
        "ansible-playbook", "--inventory=inventories/example", "--syntax-check", *PLAYBOOKS
    )
    assert done.returncode == 0, done.stderr


def test_keywords_of_plays_use_no_variable_that_an_inventory_sets() -> None:
    """Ansible evaluates these without any host; tasks and roles see a host's variables."""
    known = layout.load(layout.ROOT / "roles/preflight/vars/main.yml")
    templated = re.compile(r"{{ *(\w+)")
    for path in (layout.ROOT / "playbooks").glob("*.yml"):
        for play in layout.load(path):
            keywords = {key: play[key] for key in play.keys() & KEYWORDS}
            used = set(templated.findall(json.dumps(keywords)))
            assert used <= set(known["__preflight_playbook_variables"]), path.name


def test_every_playbook_is_short_enough_to_be_read_at_once() -> None:
    for playbook in (layout.ROOT / "playbooks").glob("*.yml"):
        assert len(playbook.read_text("utf-8").splitlines()) <= 100, playbook.name
