"""Verify has the doctor look at each GPU host, and at the cluster."""

import json
import pathlib

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible, run_role, words

pytestmark = pytest.mark.long

# A doctor that finds nothing, and writes down how it was asked.
NOTING = """echo "$@" > "${0%/*}/../../../asked"; echo '{"findings": []}'"""
PARTS = {"gpustack_agent": "verify_doctor", "cluster_objects": "doctor"}


def finding(check: str, level: str) -> dict[str, str]:
    """Return one of the doctor's; schema doctor.json."""
    said = {"subject": "", "found": "is not there", "why": "it matters", "mend": "run site.yml"}
    return {"check": check, "level": level, **said}


@pytest.mark.parametrize("role", list(PARTS))
@pytest.mark.parametrize(
    ("level", "accepted", "status"),
    [("ok", [], 0), ("warn", [], 0), ("fail", ["hook"], 0), ("fail", ["mounts"], 2)],
)
def test_only_what_fails_and_is_not_accepted_fails_verify(
    tmp_path: pathlib.Path, role: str, level: str, accepted: list[str], status: int
) -> None:
    findings = {"findings": [finding("driver", "ok"), finding("hook", level)]}
    program = f"cat <<'E'\n{json.dumps(findings)}\nE\nexit {int(level == 'fail')}"
    done = verify(tmp_path, role, program, accepted)
    assert done[0] == status, done[1]
    assert ("hook: is not there (it matters). run site.yml" in done[1]) == (status != 0)


@pytest.mark.parametrize("role", list(PARTS))
def test_a_release_without_a_doctor_passes_verify(tmp_path: pathlib.Path, role: str) -> None:
    status, said = verify(tmp_path, role, "echo 'invalid choice: doctor' >&2; exit 2", [])
    assert status == 0, said


def test_the_doctor_asks_the_cluster_of_the_site(tmp_path: pathlib.Path) -> None:
    of_site = {"cluster_objects_domain": "example.com", "cluster_objects_namespace": "gpus"}
    status, said = verify(tmp_path, "cluster_objects", NOTING, [], **of_site)
    assert status == 0, said
    assert (tmp_path / "asked").read_text().split() == [
        "doctor",
        "--kubeconfig=/etc/kubernetes/admin.conf",
        "--domain=example.com",
        "--quota=gpus/gpuquota",
        "--pool-label=gaia.tencent.com/gpu-pool",
        "--output=json",
    ]


def test_pods_are_run_where_an_image_is_named(tmp_path: pathlib.Path) -> None:
    own = {"kube_scheduler_manager": "own", "cluster_objects_trial_image": "site.example/base:1"}
    status, said = verify(tmp_path, "cluster_objects", NOTING, [], **own)
    assert status == 0, said
    told = ["--run-pods=site.example/base:1", "--namespace=default", "--scheduler-name=gpustack"]
    assert (tmp_path / "asked").read_text().split()[-3:] == told


@pytest.mark.parametrize(
    ("check", "level", "drained", "status"),
    [
        ("share-pods", "ok", True, 0),
        ("share-pods", "fail", False, 2),
        ("whole-card-pods", "warn", False, 0),
        ("whole-card-pods", "warn", True, 2),
        ("agents", "fail", True, 0),
    ],
)
def test_an_upgraded_host_is_judged_by_its_own_trial_pods(
    tmp_path: pathlib.Path, check: str, level: str, drained: bool, status: int
) -> None:
    findings = json.dumps({"findings": [finding(check, level)]})
    program = f"""echo "$@" > "${{0%/*}}/../../../asked"; echo '{findings}'"""
    node = {
        "cluster_objects_trial_image": "site.example/base:1",
        "cluster_objects_trial_node": "gpu1",
        "cluster_objects_trial_must_run": drained,
    }
    done = verify(tmp_path, "cluster_objects", program, [], part="try_node", **node)
    assert done[0] == status, done[1]
    assert "--node=gpu1" in (tmp_path / "asked").read_text().split()
    assert (f"{check}: is not there" in done[1]) == (status != 0)


def test_an_upgrade_asks_with_the_control_planes_variables(tmp_path: pathlib.Path) -> None:
    there = {
        "cluster_objects_trial_image": "site.example/base:1",
        "cluster_objects_admin_kubeconfig": "/root/there.conf",
        "kube_scheduler_manager": "own",
        "python_service_path": str(lay_doctor(tmp_path, NOTING)),
    }
    here = {"gpustack_agent_node_name": "node-1"}
    groups = {"planes": {"hosts": {"cp1": there}}, "gpus": {"hosts": {"gpu1": here}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    task = {"ansible.builtin.include_tasks": str(layout.ROOT / "playbooks/tasks/upgrade_try.yml")}
    known = {"node_maintenance_control_plane": "cp1", "__upgrade_drains": True}
    play = {"hosts": "gpu1", "gather_facts": False, "vars": known, "tasks": [task]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    files = f"--inventory={tmp_path}/hosts.yml", str(tmp_path / "play.yml")
    done = ansible("ansible-playbook", "--connection=local", *files)
    assert done.returncode == 0, words(done)
    asked = (tmp_path / "asked").read_text().split()
    told = ["--scheduler-name=gpustack", "--node=node-1"]
    assert (asked[1], asked[-2:]) == ("--kubeconfig=/root/there.conf", told)


@pytest.mark.parametrize("part", ["doctor", "try_node"])
def test_a_given_kubeconfig_is_used_on_the_controller(tmp_path: pathlib.Path, part: str) -> None:
    given = {
        "cluster_objects_kubeconfig": "/root/given.conf",
        "cluster_objects_doctor": str(tmp_path / "opt/venv/bin/gpustack"),
        "cluster_objects_trial_image": "site.example/base:1",
        "cluster_objects_trial_node": "gpu1",
    }
    status, said = verify(tmp_path, "cluster_objects", NOTING, [], part=part, **given)
    assert status == 0, said
    asked = (tmp_path / "asked").read_text().split()
    assert asked[1] == "--kubeconfig=/root/given.conf"
    assert "--run-pods=site.example/base:1" in asked
    assert ("--node=gpu1" in asked) == (part == "try_node")


def test_what_the_controllers_doctor_finds_fails_verify(tmp_path: pathlib.Path) -> None:
    findings = json.dumps({"findings": [finding("share-pods", "fail")]})
    own = {"cluster_objects_kubeconfig": "/root/given.conf"}
    status, said = verify(tmp_path, "cluster_objects", f"echo '{findings}'; exit 1", [], **own)
    assert (status, "share-pods: is not there (it matters)" in said) == (2, True), said


@pytest.mark.parametrize("part", ["doctor", "try_node"])
def test_a_controller_without_a_doctor_is_told_what_to_install(
    tmp_path: pathlib.Path, part: str
) -> None:
    own = {
        "cluster_objects_kubeconfig": "/root/admin.conf",
        "cluster_objects_doctor": str(tmp_path / "nowhere"),
        "cluster_objects_trial_node": "gpu1",
    }
    status, said = verify(tmp_path, "cluster_objects", "exit 3", [], part=part, **own)
    assert status == 0, said
    assert f"which has no gpustack to ask with it ({tmp_path}/nowhere). Install it" in said


def lay_doctor(folder: pathlib.Path, program: str) -> pathlib.Path:
    """Put a program in the doctor's stead; return the folder of the environment."""
    doctor = folder / "opt/venv/bin/gpustack"
    doctor.parent.mkdir(parents=True)
    doctor.write_text(f"#!/bin/sh\n{program}\n")
    doctor.chmod(0o755)
    return folder / "opt"


def verify(
    folder: pathlib.Path,
    role: str,
    program: str,
    accepted: list[str],
    part: str = "",
    **variables: object,
) -> tuple[int, str]:
    """Run the role's part with a program in the doctor's stead; returns status and words."""
    said = {
        "python_service_path": str(lay_doctor(folder, program)),
        f"{role}_accepted_findings": accepted,
        **variables,
    }
    done = run_role(folder, role, part or PARTS[role], said)
    return done.returncode, words(done)
