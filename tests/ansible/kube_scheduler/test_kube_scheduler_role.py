"""The role changes a scheduler's file, and restores it where the scheduler doesn't run with it."""

import json
import os
import pathlib
import re
import time

import pytest
import yaml

from tests.ansible.kube_scheduler.scheduler_host import BROKEN, FOUND, GOOD, MANIFEST, Host, Make
from tests.ansible.kube_scheduler.trial.laid_processes import HASH
from tests.ansible.rendering import words

pytestmark = pytest.mark.long


def changes(output: str) -> int:
    return int(re.findall(r"changed=(\d+)", output)[-1])


@pytest.mark.nightly  # by day molecule and tests/e2e have a unit
def test_a_unit_runs_with_what_was_written(make: Make) -> None:
    host = make("unit")
    before = host.pid
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert host.urls == [GOOD]
    assert host.answers()
    first = host.pid
    assert first != before
    again = host.play(kube_scheduler_extender_url=GOOD)
    assert changes(again.stdout) == 0, again.stdout
    assert host.play("verify", kube_scheduler_extender_url=GOOD).returncode == 0
    # as after a run that ended between the file and the restart
    os.utime(host.config)
    verified = host.play("verify", kube_scheduler_extender_url=GOOD)
    assert "was written after kube-scheduler was started" in verified.stdout
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    assert host.pid != first


def test_a_static_pod_comes_runs_and_goes(make: Make) -> None:
    host = make("static_pod")
    before = host.pid
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert host.urls == [GOOD]
    assert host.answers()
    assert host.pid != before
    again = host.play(kube_scheduler_extender_url=GOOD)
    assert changes(again.stdout) == 0, again.stdout
    gone = host.play("uninstall", kube_scheduler_extender_url=GOOD)
    assert gone.returncode == 0, gone.stdout
    assert host.manifest.read_text() == MANIFEST
    assert list(host.folder.glob("*-gpustack")) == []
    host.wait()


@pytest.mark.parametrize("kind", ["unit", pytest.param("static_pod", marks=pytest.mark.nightly)])
def test_a_broken_configuration_is_taken_back(make: Make, kind: str) -> None:
    host = make(kind)
    done = host.play(kube_scheduler_extender_url=BROKEN)
    said = words(done)
    assert done.returncode != 0
    host.wait()
    assert "What it ran with before is back, and it answers again." in said, done.stdout
    assert "run.go:74: no such extender" in said
    given = host.config.with_name(host.config.name + ".failed-gpustack")
    assert BROKEN in given.read_text()
    assert f"is kept as {given}" in said
    if kind == "unit":
        assert host.config.read_text() == FOUND
        assert "journalctl --unit=kube-scheduler.service says" in said
    else:
        assert host.manifest.read_text() == MANIFEST
        assert not host.config.exists()
        assert f"{host.folder}/logs/kube-system_kube-scheduler-here_{HASH}" in said


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [pytest.param("unit", marks=pytest.mark.nightly), "static_pod"])
def test_the_configuration_of_a_broken_off_run_is_taken_back(make: Make, kind: str) -> None:
    host = make(kind)
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    good = host.config.read_text()
    # the run that wrote this was ended before it saw that the scheduler doesn't come back
    host.config.write_text(good.replace(GOOD, BROKEN))
    if kind == "unit":
        os.kill(int(host.pid), 9)
    # a pod's scheduler still runs with the file that it was started with
    done = host.play(kube_scheduler_extender_url=BROKEN)
    assert done.returncode != 0
    host.wait()
    assert host.config.read_text() == good
    assert "and it answers again" in words(done), done.stdout


@pytest.mark.nightly
def test_a_stopped_schedulers_configuration_is_not_kept_as_the_last_good(make: Make) -> None:
    host = make("unit")
    # without a URL to ask, a running process counts as well
    said = {"kube_scheduler_extender_url": GOOD, "kube_scheduler_health_url": ""}
    assert host.play(**said).returncode == 0
    good = host.config.read_text()
    host.stop_unit()
    host.config.write_text(good + "clientConnection:\n  kubeconfig: broken\n")
    done = host.play(**said)
    assert done.returncode == 0, done.stdout
    assert not host.answers(), "a scheduler that was stopped on purpose stays stopped"
    kept = host.config.with_name(host.config.name + ".last-good-gpustack")
    assert kept.read_text() == good


@pytest.mark.nightly
def test_a_scheduler_that_runs_with_nothing_known_is_reported(make: Make) -> None:
    host = make("unit")
    os.kill(int(host.pid), 9)
    host.config.write_text(FOUND + "# broken by its owner\n")
    done = host.play(kube_scheduler_extender_url=BROKEN)
    assert done.returncode != 0
    assert "does not answer with that either: see to it now" in words(done)


@pytest.mark.nightly
def test_a_configuration_made_from_nothing_is_of_the_version(make: Make) -> None:
    host = make("unit", version="v1.24.17")
    host.config.unlink()
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    made = yaml.safe_load(host.config.read_text())
    assert made["apiVersion"] == "kubescheduler.config.k8s.io/v1beta3"


@pytest.mark.nightly
def test_uninstall_leaves_a_file_that_the_unit_names(make: Make) -> None:
    host = make("unit")
    host.config.unlink()
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    with_ours = host.pid
    done = host.play("uninstall", kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert host.config.exists(), "the scheduler would not start again"
    assert yaml.safe_load(host.config.read_text()) == {
        **yaml.safe_load(FOUND),
        "clientConnection": {"kubeconfig": str(host.kubeconfig)},
        "leaderElection": {"leaderElect": True},
    }
    assert host.pid != with_ours, "the scheduler would still ask the extender"
    assert changes(host.play("uninstall", kube_scheduler_extender_url=GOOD).stdout) == 0


@pytest.mark.nightly
def test_uninstall_leaves_a_policy_that_the_unit_names(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "policy.json"
    command = f"{tmp_path}/bin/kube-scheduler --policy-config-file={policy}"
    host = Host(tmp_path, version="v1.22.17", command=command)
    said = {"kube_scheduler_form": "policy", "kube_scheduler_policy_path": str(policy)}
    try:
        assert host.play(**said).returncode == 0
        assert json.loads(policy.read_text())["extenders"]
        assert host.play("uninstall", **said).returncode == 0
        assert json.loads(policy.read_text()) == {"apiVersion": "v1", "kind": "Policy"}
    finally:
        host.stop()


@pytest.mark.nightly
def test_uninstall_removes_a_file_that_the_unit_does_not_name(make: Make) -> None:
    host = make("unit")
    other = host.folder / "other.yaml"
    said = {"kube_scheduler_extender_url": GOOD, "kube_scheduler_config_path": str(other)}
    assert host.play(**said).returncode == 0
    assert host.play("uninstall", **said).returncode == 0
    assert not other.exists()


UNIT_FAULTS = {
    "none": ("--leader-elect=true", "(systemctl edit kube-scheduler.service)"),
    "environment": ("$OPTIONS", "Set kube_scheduler_config_path to /srv/theirs.yaml"),
}


@pytest.mark.parametrize("fault", UNIT_FAULTS)
def test_preflight_refuses_a_unit_that_would_not_read_our_file(
    tmp_path: pathlib.Path, fault: str
) -> None:
    arguments, advice = UNIT_FAULTS[fault]
    options = tmp_path / "options"
    options.write_text("# site's\nOPTIONS='--v=2 --config=/srv/theirs.yaml'\n")
    shown = f"NeedDaemonReload=no\nEnvironmentFiles={options} (ignore_errors=no)"
    command = f"{tmp_path}/bin/kube-scheduler {arguments}"
    host = Host(tmp_path, shown=shown, command=command)
    done = host.play("preflight")
    assert done.returncode != 0
    assert advice in words(done), done.stdout


def test_preflight_accepts_a_unit_that_reads_our_file(tmp_path: pathlib.Path) -> None:
    done = Host(tmp_path).play("preflight")
    assert done.returncode == 0, done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["unit", pytest.param("static_pod", marks=pytest.mark.nightly)])
def test_preflight_wants_an_answer_of_a_scheduler_that_runs_for_long(make: Make, kind: str) -> None:
    host = make(kind)
    elsewhere = {"kube_scheduler_health_url": "http://127.0.0.1:1/healthz"}
    young = host.play("preflight", **elsewhere, __kube_scheduler_settled_seconds=1_000_000)
    assert young.returncode == 0, young.stdout
    done = host.play("preflight", **elsewhere, __kube_scheduler_settled_seconds=0)
    assert done.returncode != 0
    assert "Set kube_scheduler_health_url to where it answers" in words(done)
    done = host.play("preflight", __kube_scheduler_settled_seconds=0)
    assert done.returncode == 0, done.stdout


def test_preflight_wants_systemd_to_have_read_the_unit(tmp_path: pathlib.Path) -> None:
    done = Host(tmp_path, shown="NeedDaemonReload=yes").play("preflight")
    assert done.returncode != 0
    assert "systemctl daemon-reload" in done.stdout


def test_preflight_wants_the_form_that_the_version_reads(tmp_path: pathlib.Path) -> None:
    done = Host(tmp_path, version="v1.22.17").play("preflight")
    assert done.returncode != 0
    assert "set kube_scheduler_form to policy" in words(done)


def test_preflight_wants_an_api_version_that_nothing_says(tmp_path: pathlib.Path) -> None:
    done = Host(tmp_path, version="unknown").play("preflight")
    assert done.returncode != 0
    assert "set kube_scheduler_api_version to" in words(done)


BINDS = f"{FOUND}extenders: [{{urlPrefix: http://other.test/x, bindVerb: bind}}]\n"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (BINDS, "extenders: http://other.test/x has a bindVerb, and so has gpustack"),
        ("profiles: [\n", "scheduler-config.yaml: while parsing a flow node"),
        ("- one\n", "scheduler-config.yaml: is no KubeSchedulerConfiguration"),
    ],
)
def test_preflight_refuses_a_configuration_that_is_not_to_be_merged_into(
    tmp_path: pathlib.Path, found: str, said: str
) -> None:
    host = Host(tmp_path)
    host.config.write_text(found)
    done = host.play("preflight")
    assert done.returncode != 0
    assert said in words(done), done.stdout


@pytest.mark.nightly
def test_check_mode_names_an_edited_file_and_nothing_else(make: Make) -> None:
    host = make("unit")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    host.config.write_text(host.config.read_text() + "# hand\n")
    # An edit in the second of the scheduler's start passes for one before it.
    later = time.time() + 60
    os.utime(host.config, (later, later))
    done = host.play("main", "--check", kube_scheduler_extender_url=GOOD)
    assert (done.returncode, changes(done.stdout)) == (0, 1), done.stdout


@pytest.mark.nightly
def test_check_mode_says_what_is_wrong_and_not_that_it_went_back(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.config.write_text(BINDS)
    done = host.play("main", "--check", kube_scheduler_extender_url=GOOD)
    assert done.returncode != 0
    assert "http://other.test/x has a bindVerb" in done.stdout
    assert "What it ran with before" not in done.stdout
    assert host.config.read_text() == BINDS
