"""drift.yml says which hosts differ from what site.yml lays out, and changes none."""

import json
import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

GROUPS: dict[str, dict[str, Any]] = {
    "kube_control_plane": {"cp1": {}},
    "gpu_nodes": {"gpu1": {}, "gpu2": {}},
}
UNTOLD = "Run it with --check. Nothing was changed."


def play(
    folder: pathlib.Path, *arguments: str, **variables: dict[str, Any]
) -> tuple[recorder.Run, list[dict[str, str]]]:
    """Run it with more variables of some hosts; return what it wrote down, too."""
    groups = {
        group: {host: variables.get(host, {}) for host in hosts} for group, hosts in GROUPS.items()
    }
    report = folder / "report.json"
    told = f"--extra-vars=drift_report={report}"
    run = recorder.play(folder, groups, told, *arguments, playbook="playbooks/drift.yml")
    return run, json.loads(report.read_text()) if report.exists() else []


def table(run: recorder.Run) -> list[list[str]]:
    """Return the rows of the table, by their columns."""
    lines = run.output.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("HOST "))
    return [line.split(maxsplit=2) for line in lines[begin + 1 :] if line.strip()]


def test_a_site_as_it_was_laid_out_has_no_differences(tmp_path: pathlib.Path) -> None:
    run, found = play(tmp_path, "--check")
    assert (run.status, found) == (0, [])
    assert "HOST " not in run.output


def test_each_difference_is_named_with_its_host_and_role(tmp_path: pathlib.Path) -> None:
    run, found = play(
        tmp_path,
        "--check",
        cp1={"differs": ["kube_scheduler"]},
        gpu2={"differs": ["gpustack_agent"]},
    )
    rows = [
        {"host": "cp1", "role": "kube_scheduler", "differs": "Record"},
        {"host": "gpu2", "role": "gpustack_agent", "differs": "Record"},
    ]
    assert (run.status, found) == (2, rows)
    assert table(run) == [list(row.values()) for row in rows]


@pytest.mark.nightly
def test_a_run_of_one_role_tells_its_differences(tmp_path: pathlib.Path) -> None:
    differs = {"differs": ["kube_scheduler", "cluster_objects"]}
    run, found = play(tmp_path, "--check", "--tags=kube_scheduler", cp1=differs)
    assert (run.status, [row["role"] for row in found]) == (2, ["kube_scheduler"])


def test_a_host_that_does_not_answer_is_status_4(tmp_path: pathlib.Path) -> None:
    run, found = play(
        tmp_path, "--check", gpu1={"vanishes": ["nvidia_uvm"]}, cp1={"differs": ["kube_scheduler"]}
    )
    assert run.status == 4
    assert [(row["host"], row["role"]) for row in found] == [
        ("cp1", "kube_scheduler"),
        ("gpu1", "nvidia_uvm"),
    ]


def test_what_cannot_be_compared_is_named_with_its_reason(tmp_path: pathlib.Path) -> None:
    run, found = play(tmp_path, "--check", gpu1={"fails": ["gpustack_hook"]})
    assert run.status == 2
    assert [row["differs"] for row in found] == ["Record: told to"]


def test_a_run_that_could_change_hosts_is_refused(tmp_path: pathlib.Path) -> None:
    run, _ = play(tmp_path)
    assert run.status == 2
    assert UNTOLD in " ".join(run.output.split())
    assert run.changed == []


@pytest.mark.parametrize(
    "playbook", [pytest.param("site.yml", marks=pytest.mark.nightly), "playbooks/verify.yml"]
)
def test_other_playbooks_print_no_table(tmp_path: pathlib.Path, playbook: str) -> None:
    groups = GROUPS | {"kube_control_plane": {"cp1": {"differs": ["kube_scheduler"]}}}
    run = recorder.play(tmp_path, groups, "--check", playbook=playbook)
    assert run.status == 0
    assert "HOST " not in run.output
