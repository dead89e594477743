"""No playbook goes on without one of our groups, or where facts of hosts override variables."""

import pathlib
import re
from typing import Any

import pytest

from tests.ansible import layout
from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

GROUPS = ("kube_control_plane", "gpu_nodes")
FIRST = {"kube_control_plane": "cp1", "gpu_nodes": "gpu1"}
# What others import after their checks (docs/operations.md).
PARTS = {
    "cluster", "control_plane", "extender_rights", "gpu_nodes", "upgrade_extenders",
    "upgrade_gpu_hosts",
}  # fmt: skip
WHOLE = sorted(
    {path.stem for path in (layout.ROOT / "playbooks").glob("*.yml")} - PARTS - {"inventory"}
)


@pytest.mark.parametrize(
    ("playbook", "missing"),
    [
        ("verify", GROUPS),
        ("verify", ("gpu_nodes",)),
        ("running_pods", ("kube_control_plane",)),
        ("gpu_node_pods", ("gpu_nodes",)),
        ("uninstall", ("kube_control_plane",)),
        ("uninstall", ("gpu_nodes",)),
        pytest.param("uninstall", GROUPS, marks=pytest.mark.nightly),
    ],
)
def test_a_missing_group_is_named_and_nothing_else_is_done(
    tmp_path: pathlib.Path, playbook: str, missing: tuple[str, ...]
) -> None:
    groups: dict[str, Any] = {name: {FIRST[name]: {}} for name in GROUPS if name not in missing}
    confirmed = "--extra-vars=uninstall_confirmed=true"
    run = recorder.play(tmp_path, groups, confirmed, playbook=f"playbooks/{playbook}.yml")
    assert run.status != 0
    assert run.entries == []
    assert f"Group {missing[0]} has no hosts" in " ".join(run.output.split())


@pytest.mark.parametrize("missing", GROUPS)
def test_a_limited_rollout_without_one_of_the_groups_is_refused(
    tmp_path: pathlib.Path, missing: str
) -> None:
    groups: dict[str, Any] = {name: {FIRST[name]: {}} for name in GROUPS if name != missing}
    [host] = [FIRST[name] for name in GROUPS if name != missing]
    run = recorder.play(tmp_path, groups, f"--limit={host}")
    assert run.status != 0
    assert run.entries == []
    assert f"Group {missing} has no hosts" in " ".join(run.output.split())


# Root on a GPU host writes its facts, and could name another host's node and pool by them.
@pytest.mark.parametrize("playbook", ["site", "drift"])
def test_facts_that_override_variables_are_refused(tmp_path: pathlib.Path, playbook: str) -> None:
    groups: dict[str, Any] = {name: {host: {}} for name, host in FIRST.items()}
    # drift.yml asks for these two before it asks for the inventory
    settings = {"ANSIBLE_INJECT_FACT_VARS": "True", "GPUSTACK_DRIFT_REPORT": "there"}
    run = recorder.play(
        tmp_path, groups, "--check", playbook=f"playbooks/{playbook}.yml", settings=settings
    )
    assert run.status != 0
    assert run.entries == []
    assert "TASK [Gathering Facts]" not in run.output
    said = " ".join(run.output.split())
    assert "inject_facts_as_vars = False below [defaults]" in said
    assert "ANSIBLE_INJECT_FACT_VARS=False" in said


def before_the_inventorys(name: str) -> list[dict[str, Any]]:
    """Return the plays of a playbook that come before those of inventory.yml."""
    plays: list[dict[str, Any]] = []
    for play in layout.load(layout.ROOT / "playbooks" / name):
        if other := play.get("ansible.builtin.import_playbook"):
            return [*plays, *(before_the_inventorys(other) if other != "inventory.yml" else [])]
        plays.append(play)
    raise AssertionError(f"{name} imports no playbook that imports inventory.yml")


@pytest.mark.parametrize("playbook", WHOLE)
def test_no_host_answers_before_these_checks(playbook: str) -> None:
    for play in before_the_inventorys(f"{playbook}.yml"):
        assert play["gather_facts"] is False
        for task in play["tasks"]:
            assert "ansible.builtin.assert" in task, task["name"]


def test_parts_of_playbooks_are_those_that_the_page_names() -> None:
    page = (layout.ROOT / "docs/operations.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if "| parts of these and of `site.yml` |" in line]
    # beside site.yml's own, which the page doesn't offer at all
    named = PARTS - {"cluster", "control_plane", "gpu_nodes"}
    assert named | {"upgrade_parts"} == set(re.findall(r"`playbooks/(\w+)\.yml`", row))
