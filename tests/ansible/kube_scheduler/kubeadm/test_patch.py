"""kubeadm's patch keeps our part in a manifest that an upgrade writes anew."""

import pathlib

import pytest
import yaml

from tests.ansible.kube_scheduler.kubeadm.kubeadm import patched
from tests.ansible.kube_scheduler.scheduler_host import GOOD, MANIFEST, Host, Make
from tests.ansible.rendering import words

pytestmark = pytest.mark.long

UPGRADED = MANIFEST.replace("v1.34.4", "v1.35.0").replace("]", ", --new=default]")
NAME = "kube-scheduler0gpustack+strategic.yaml"


def patch_folder(host: Host) -> pathlib.Path:
    """Make the folder that the cluster's kubeadm is given."""
    made = host.folder / "patches"
    made.mkdir(exist_ok=True)
    return made


def test_a_patched_upgrade_keeps_our_entry_and_uninstall_takes_it(make: Make) -> None:
    host = make("static_pod")
    patches = patch_folder(host)
    (patches / "kube-scheduler+json.yaml").write_text("[]\n")  # the site's own
    said = {"kube_scheduler_extender_url": GOOD, "kube_scheduler_kubeadm_patches": str(patches)}
    done = host.play(**said)
    assert done.returncode == 0, done.stdout
    assert "changed=0" in host.play(**said).stdout
    before = host.pid
    host.manifest.write_text(patched(UPGRADED, (patches / NAME).read_text()))
    host.wait_for_another(before)
    before = host.pid
    # as drift.yml looks
    found = host.play("main", "--check", **said)
    assert "changed=0" in found.stdout, found.stdout
    done = host.play(**said)
    assert done.returncode == 0, done.stdout
    assert host.pid == before
    assert host.play("verify", **said).returncode == 0
    assert host.play("uninstall", **said).returncode == 0
    assert yaml.safe_load(host.manifest.read_text()) == yaml.safe_load(UPGRADED)
    assert [one.name for one in patches.iterdir()] == ["kube-scheduler+json.yaml"]
    assert list(host.folder.glob("*-gpustack")) == []


@pytest.mark.nightly
def test_a_patch_goes_with_its_variable_and_from_an_older_folder(make: Make) -> None:
    host = make("static_pod")
    patches, other = patch_folder(host), host.folder / "other"
    other.mkdir()
    said = {"kube_scheduler_extender_url": GOOD}
    assert host.play(**said, kube_scheduler_kubeadm_patches=str(patches)).returncode == 0
    assert host.play(**said, kube_scheduler_kubeadm_patches=str(other)).returncode == 0
    assert list(patches.iterdir()) == []
    assert host.play("uninstall", **said).returncode == 0
    assert list(other.iterdir()) == []
    assert host.play(**said, kube_scheduler_kubeadm_patches=str(patches)).returncode == 0
    assert host.play(**said).returncode == 0
    assert list(patches.iterdir()) == []


@pytest.mark.nightly
def test_a_patch_of_an_older_file_is_named_and_written_anew(make: Make) -> None:
    host = make("static_pod")
    patches = patch_folder(host)
    said = {"kube_scheduler_extender_url": GOOD, "kube_scheduler_kubeadm_patches": str(patches)}
    assert host.play(**said).returncode == 0
    laid = (patches / NAME).read_text()
    (patches / NAME).write_text(laid.replace("sha256: ", "sha256: 0"))
    assert "kubeadm's next upgrade would write a manifest" in words(host.play("verify", **said))
    assert "changed=1 " in host.play("main", "--check", **said).stdout
    assert host.play(**said).returncode == 0
    assert (patches / NAME).read_text() == laid


def test_a_manifest_of_another_text_alone_restarts_nothing(make: Make) -> None:
    host = make("static_pod")
    assert host.play(kube_scheduler_extender_url=GOOD).returncode == 0
    before = host.pid
    host.manifest.write_text(f"# by hand\n{host.manifest.read_text()}")
    done = host.play(kube_scheduler_extender_url=GOOD)
    assert done.returncode == 0, done.stdout
    assert host.pid == before


@pytest.mark.parametrize(
    ("manager", "folder", "cure"),
    [
        ("static_pod", "nowhere", "make the one that kubeadm is given"),
        ("systemd", "manifests", "leave it out"),
    ],
)
def test_preflight_wants_the_folder_of_a_kubeadm_that_is_there(
    tmp_path: pathlib.Path, manager: str, folder: str, cure: str
) -> None:
    host = Host(tmp_path)
    if manager == "static_pod":
        host.manifest.write_text(MANIFEST)
    done = host.play(
        "preflight",
        kube_scheduler_manager=manager,
        kube_scheduler_kubeadm_patches=str(host.folder / folder),
    )
    assert done.returncode != 0
    assert f"kube_scheduler_kubeadm_patches is {host.folder / folder}" in words(done), done.stdout
    assert cure in words(done)
