"""A scheduler of our own comes, is tried before it changes, goes back, and goes."""

import collections.abc
import pathlib
import re
import socket
import stat
from typing import Any

import pytest

from tests.ansible.kube_scheduler.own_host import IDENTITY, OwnHost
from tests.ansible.kube_scheduler.scheduler_host import GOOD, lay_certificates
from tests.ansible.rendering import words
from tests.control_plane.processes import free_port
from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.long

REFUSED, STUCK = "http://127.0.0.1:3456/refused", "http://127.0.0.1:3456/stuck"


@pytest.fixture
def host(tmp_path: pathlib.Path) -> collections.abc.Iterator[OwnHost]:
    made = OwnHost(tmp_path)
    yield made
    made.stop()


def changes(output: str) -> int:
    return int(re.findall(r"changed=(\d+)", output)[-1])


def files(host: OwnHost) -> list[str]:
    """Return what the role has laid."""
    laid = [host.config.parent, host.program.parent, host.unit]
    return [str(path) for path in laid if path.exists()]


@pytest.mark.nightly
def test_it_comes_stays_and_goes(host: OwnHost) -> None:
    dry = host.play("main", "--check")
    assert dry.returncode == 0, dry.stdout
    assert files(host) == []
    done = host.play()
    assert done.returncode == 0, done.stdout
    said = host.said()
    assert said["profiles"] == [{"schedulerName": "gpustack"}]
    assert said["leaderElection"]["resourceName"] == "gpustack-scheduler"
    assert [one["urlPrefix"] for one in said["extenders"]] == [GOOD]
    key = (host.config.parent / "kubeconfig").stat()
    assert stat.S_IMODE(key.st_mode) == 0o640
    for again in (host.play(), host.play("main", "--check")):
        assert again.returncode == 0, again.stdout
        assert changes(again.stdout) == 0, again.stdout
    assert host.play("verify").returncode == 0
    gone = host.play("uninstall")
    assert gone.returncode == 0, gone.stdout
    assert files(host) == []
    assert not (host.folder / "pid").exists(), "it still runs"
    assert changes(host.play("uninstall").stdout) == 0


def test_what_its_trial_refuses_is_never_put_in_place(host: OwnHost) -> None:
    assert host.play().returncode == 0
    before, pid = host.config.read_text(), host.pid
    done = host.play(kube_scheduler_extender_url=REFUSED)
    assert done.returncode != 0
    assert "strict decoding error" in words(done), done.stdout
    assert "What it ran with before was not replaced." in words(done)
    assert (host.config.read_text(), host.pid) == (before, pid)


@pytest.mark.nightly
def test_what_it_does_not_start_with_is_taken_back(host: OwnHost) -> None:
    assert host.play().returncode == 0
    before = host.config.read_text()
    done = host.play(kube_scheduler_extender_url=STUCK)
    assert done.returncode != 0
    assert "What it ran with before is back, and it answers again." in words(done), done.stdout
    assert "no right to do that" in words(done)
    assert host.config.read_text() == before
    assert host.play("verify").returncode == 0


@pytest.mark.nightly
def test_one_that_has_never_run_is_stopped(host: OwnHost) -> None:
    done = host.play(kube_scheduler_extender_url=STUCK)
    assert done.returncode != 0
    assert "It has never run here, and is stopped." in words(done), done.stdout
    assert host.play().returncode == 0
    assert host.play("verify").returncode == 0


@pytest.mark.nightly
def test_a_new_program_restarts_it_and_a_bad_one_does_not(host: OwnHost) -> None:
    assert host.play().returncode == 0
    pid = host.pid
    host.give("v1.37.3")
    assert host.play().returncode == 0
    assert host.pid != pid
    good, pid = host.program.read_text(), host.pid
    host.binary.write_text("#!/bin/false\n")  # as one of another architecture
    done = host.play()
    assert done.returncode != 0
    assert "failed to validate" in words(done), done.stdout
    assert (host.program.read_text(), host.pid) == (good, pid)


@pytest.mark.nightly
def test_a_file_that_a_broken_off_run_has_left_restarts_it(host: OwnHost) -> None:
    assert host.play().returncode == 0
    pid = host.pid
    (host.config.parent / "kubeconfig").touch()
    verified = host.play("verify")
    assert "was written after kube-scheduler was started" in words(verified), verified.stdout
    assert host.play().returncode == 0
    assert host.pid != pid


@pytest.mark.nightly
def test_drift_sees_what_somebody_has_changed_by_hand(host: OwnHost) -> None:
    assert host.play().returncode == 0
    host.config.write_text(host.config.read_text().replace("gpustack-scheduler", "kube-scheduler"))
    done = host.play("main", "--check", "--diff")
    assert done.returncode == 0, done.stdout
    assert "+  resourceName: gpustack-scheduler" in done.stdout
    assert "resourceName: kube-scheduler" in host.config.read_text()


BAD: dict[str, tuple[dict[str, object], str]] = {
    "binary": ({"kube_scheduler_own_binary": "/missing"}, "kube_scheduler_own_binary is /missing"),
    "none": ({"kube_scheduler_own_binary": ""}, "kube_scheduler_own_binary is empty"),
    "name": ({"kube_scheduler_own_name": "default-scheduler"}, "and not default-scheduler"),
    "form": ({"kube_scheduler_form": "policy"}, "leave it out"),
}


@pytest.mark.parametrize("fault", BAD)
def test_preflight_refuses_what_it_could_not_run_with(host: OwnHost, fault: str) -> None:
    variables, said = BAD[fault]
    done = host.play("preflight", **variables)
    assert done.returncode != 0
    assert said in words(done), done.stdout


def test_preflight_wants_a_program_that_may_be_executed(host: OwnHost) -> None:
    host.binary.chmod(0o644)
    done = host.play("preflight")
    assert done.returncode != 0
    assert f"kube_scheduler_own_binary is {host.binary}, and is not executable" in words(done)


def test_preflight_wants_a_program_of_this_architecture(host: OwnHost) -> None:
    host.binary.write_bytes(b"\x7fELF of another machine")
    done = host.play("preflight")
    assert done.returncode != 0
    assert "is no program for this architecture" in words(done), done.stdout


@pytest.mark.parametrize("version", ["v1.22.17", "2"])
def test_preflight_wants_a_scheduler_that_reads_configurations(host: OwnHost, version: str) -> None:
    host.give(version)
    done = host.play("preflight")
    assert done.returncode != 0
    assert f"says Kubernetes {version} for its version" in words(done), done.stdout
    assert "give a kube-scheduler 1.23 or newer" in words(done)


def test_preflight_wants_its_port(host: OwnHost) -> None:
    assert host.play("preflight").returncode == 0
    with socket.create_server(("127.0.0.1", host.port)):
        done = host.play("preflight")
    assert done.returncode != 0
    assert f"Another program listens on port {host.port}" in words(done), done.stdout


def test_preflight_refuses_a_change_between_theirs_and_ours(host: OwnHost) -> None:
    host.unit.touch()
    done = host.play("preflight", kube_scheduler_manager="systemd")
    assert "set it back to own, run uninstall.yml" in words(done), done.stdout
    host.unit.unlink()
    (host.folder / "theirs.yaml.last-good-gpustack").touch()
    done = host.play("preflight")
    assert "calls our extender, and kube_scheduler_manager is own by now" in words(done)


@pytest.mark.testbed
def test_the_real_kube_scheduler_tries_it_and_runs_with_it(host: OwnHost) -> None:
    folder = host.folder / "pki"
    lay_certificates(folder)
    trusted = (folder / "ca.crt").read_bytes()
    (folder / "ca.crt").write_text("no certificate")
    said: dict[str, Any] = {
        "kube_scheduler_own_binary": str(kubernetes.CURRENT.bin / "kube-scheduler"),
        "kube_scheduler_tls": True,
        "kube_scheduler_certificates": str(folder),
        "kube_scheduler_extender_url": "https://127.0.0.1:3456/scheduler",
        "kube_scheduler_own_identity": IDENTITY,
        "kube_scheduler_own_port": (port := free_port()),
        "kube_scheduler_health_url": f"https://127.0.0.1:{port}/healthz",
        "kube_scheduler_health_seconds": 60,
    }
    refused = host.play("main", **said)
    assert refused.returncode != 0
    assert "couldn't build extenders" in words(refused), refused.stdout
    assert not host.config.exists()
    (folder / "ca.crt").write_bytes(trusted)
    done = host.play("main", **said)
    assert done.returncode == 0, done.stdout
    assert host.play("verify", **said).returncode == 0
