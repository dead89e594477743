"""The scheduler's file stays there, and readable, where unit or manifest name it."""

import os
import pathlib

import pytest
import yaml

from tests.ansible.kube_scheduler.scheduler_host import BROKEN, FOUND, GOOD, MANIFEST, Host, Make

pytestmark = [pytest.mark.long, pytest.mark.nightly]

# TKEStack's gpu-admission, at the address that our extender has by default
ORIGINAL = f"{FOUND}extenders: [{{urlPrefix: {GOOD!r}, filterVerb: predicates}}]\n"
OWNER, GROUP = 12345, 12346  # of a scheduler that doesn't run as root


def naming(host: Host) -> str:
    """Return a manifest with a flag of the site's own (kubeadm's extraArgs) for the same file."""
    return MANIFEST.replace("--leader-elect=true", f"--config={host.config}")


@pytest.mark.parametrize("original", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_uninstall_leaves_a_file_that_the_manifest_names(
    tmp_path: pathlib.Path, original: bool
) -> None:
    host = Host(tmp_path)
    host.manifest.write_text(naming(host) if original else MANIFEST)
    if original:
        host.config.write_text(ORIGINAL)
    try:
        host.start_kubelet()
        assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
        if not original:  # as kubeadm's upgrade writes it after the operator has given it the flag
            before = host.pid
            host.manifest.write_text(naming(host))
            host.wait_for_another(before)
            assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
        done = host.play("uninstall", kube_scheduler_extender_url=GOOD)
        assert done.returncode == 0, done.stdout
        assert host.answers(), "the scheduler doesn't start without the file"
        assert host.urls == []
        assert yaml.safe_load(host.config.read_text())["kind"] == "KubeSchedulerConfiguration"
        assert host.manifest.read_text() == naming(host)
    finally:
        host.stop()


def test_a_failed_run_leaves_a_file_that_the_unit_names(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.config.write_text(FOUND)
    try:
        host.start_unit()
        host.config.unlink()  # the unit got its flag after the scheduler's start
        done = host.play(kube_scheduler_extender_url=BROKEN)
        assert done.returncode != 0
        assert host.answers(), done.stdout
        assert host.urls == []
        assert "one without our part is there, and it answers" in " ".join(done.stdout.split())
    finally:
        host.stop()


def test_a_schedulers_file_keeps_its_owner_and_mode(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.config.write_text(FOUND)
    host.config.chmod(0o640)
    os.chown(host.config, OWNER, GROUP)
    try:
        host.start_unit()
        for tasks, url in (("main", BROKEN), ("main", GOOD), ("uninstall", GOOD)):
            host.play(tasks, kube_scheduler_extender_url=url)
            found = host.config.stat()
            assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (OWNER, GROUP, 0o640)
        assert host.config.read_text() == FOUND
    finally:
        host.stop()


def test_a_policy_of_ours_at_another_address_is_no_original(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "policy.json"
    command = f"{tmp_path}/bin/kube-scheduler --policy-config-file={policy}"
    host = Host(tmp_path, version="v1.22.17", command=command)
    policy.write_text('{"kind": "Policy", "apiVersion": "v1"}')
    found = policy.read_text()
    said = {"kube_scheduler_form": "policy", "kube_scheduler_policy_path": str(policy)}
    try:
        host.start_unit()
        for url in (GOOD, GOOD.replace("3456", "3457")):
            done = host.play(**said, kube_scheduler_extender_url=url)
            assert done.returncode == 0, done.stdout
        assert host.play("uninstall", **said, kube_scheduler_extender_url=url).returncode == 0
        assert policy.read_text() == found, "every pod would wait for an extender that is gone"
    finally:
        host.stop()


def test_preflight_wants_the_kubeconfig_of_a_configuration_to_make(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    missing = str(tmp_path / "missing.conf")
    done = host.play("preflight", kube_scheduler_kubeconfig=missing)
    assert done.returncode != 0
    assert f"{missing} is missing" in " ".join(done.stdout.split()), done.stdout
    host.config.write_text(FOUND)
    done = host.play("preflight", kube_scheduler_kubeconfig=missing)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", ["unit", pytest.param("static_pod", marks=pytest.mark.nightly)])
def test_a_file_behind_a_link_is_changed_and_the_link_stays(
    tmp_path: pathlib.Path, kind: str
) -> None:
    host = Host(tmp_path)
    links = {host.config: FOUND, **({host.manifest: MANIFEST} if kind == "static_pod" else {})}
    for link, found in links.items():
        (tmp_path / f"their-{link.name}").write_text(found)
        link.symlink_to(tmp_path / f"their-{link.name}")
    try:
        host.start_kubelet() if kind == "static_pod" else host.start_unit()
        done = host.play(kube_scheduler_extender_url=GOOD)
        assert done.returncode == 0, done.stdout
        assert GOOD in (tmp_path / f"their-{host.config.name}").read_text()
        assert "changed=0" in host.play(kube_scheduler_extender_url=GOOD).stdout
        os.utime(host.config)  # as after a run that ended between the file and the restart
        assert (
            kind == "static_pod" or host.play("verify", kube_scheduler_extender_url=GOOD).returncode
        )
        broken = host.play(kube_scheduler_extender_url=BROKEN)
        assert "is back, and it answers again" in " ".join(broken.stdout.split())
        assert host.urls == [GOOD]
        assert host.play("uninstall", kube_scheduler_extender_url=GOOD).returncode == 0
        for link, found in links.items():
            assert link.is_symlink()
            assert link.read_text() == found
    finally:
        host.stop()


def test_uninstall_starts_no_scheduler_whose_manifest_was_taken_away(
    tmp_path: pathlib.Path,
) -> None:
    host = Host(tmp_path)
    host.manifest.write_text(MANIFEST)
    try:
        host.start_kubelet()
        assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    finally:
        host.stop()
    host.manifest.unlink()  # it became a unit, or the host leads no more
    done = host.play("uninstall", kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert not host.manifest.exists()
    assert not host.config.exists()
    (kept,) = host.folder.glob("*-gpustack")
    assert kept.read_text() == MANIFEST
    assert f"As it was found it is kept as {kept}" in " ".join(done.stdout.split())


def test_uninstall_puts_a_file_of_comments_back(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.manifest.write_text(MANIFEST)
    host.config.write_text("# profiles: []\n")
    try:
        host.start_kubelet()
        assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
        assert host.urls == [GOOD]
        assert host.play("uninstall", kube_scheduler_extender_url=GOOD).returncode == 0
        assert host.config.read_text() == "# profiles: []\n"
    finally:
        host.stop()


def test_preflight_refuses_a_file_in_the_folder_of_manifests(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path)
    host.manifest.write_text(MANIFEST)
    try:
        host.start_kubelet()
        config = host.manifest.with_name("scheduler-config.yaml")
        done = host.play("preflight", kube_scheduler_config_path=str(config))
        assert done.returncode != 0
        assert f"{config} lies in the kubelet's folder of pods" in " ".join(done.stdout.split())
    finally:
        host.stop()


# Beside --config kube-scheduler ignores them: a hardened host's profiling would be on again.
def test_flags_that_a_configuration_voids_are_taken_over(make: Make) -> None:
    host = make("static_pod")
    hardened = "--leader-elect=true, --profiling=false, --kube-api-qps=200"
    host.manifest.write_text(MANIFEST.replace("--leader-elect=true", hardened))
    host.wait_for_another(host.pid)
    found = host.manifest.read_text()
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    made = yaml.safe_load(host.config.read_text())
    assert (made["enableProfiling"], made["clientConnection"]["qps"]) == (False, 200)
    assert "changed=0" in host.play(kube_scheduler_extender_url=GOOD).stdout
    assert host.play("uninstall", kube_scheduler_extender_url=GOOD).returncode == 0
    assert host.manifest.read_text() == found
    assert list(host.folder.glob("scheduler-config*")) == []
