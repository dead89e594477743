"""A share gets the build of the hook that the configuration names, and a whole one."""

import os
import pathlib
import shutil
import subprocess
from typing import Any

import pytest

from gpustack.adapters.hook_build import HookBuild, HookError, content_sum
from gpustack.agent import settings
from gpustack.agent.node.shared_files import SharedFiles
from gpustack.wire.config import ConfigError
from tests import open_files
from tests.agent.host import CORE, Host, container, make_pod
from tests.fakes.kubelet import AdmissionError


def hook_of(host: Host, name: str) -> str:
    """Return the hook's folder that a new share is given."""
    response = host.kubelet.admit(host.create(make_pod(name, container("c0", 20, 32))))["c0"]
    mounts: dict[str, str] = {mount.container_path: mount.host_path for mount in response.mounts}
    return mounts["/etc/vcuda/hook"]


def test_a_share_gets_the_build_that_the_configuration_names(host: Host) -> None:
    # The share doesn't get another build on the host, of any version.
    for version in ("0.0.9", "0.1.0", "0.2.0", "0.2.0rc1"):
        host.files.install_hook(f"{version}+other")
    host.start_agent()
    assert hook_of(host, "p") == str(host.hook)


def test_going_back_gives_new_shares_the_older_build(host: Host) -> None:
    older, host.hook = host.hook, host.files.install_hook("0.2.0")
    host.start_agent()
    newer = hook_of(host, "one")
    host.hook = older
    host.stop_agent()
    host.start_agent()
    assert hook_of(host, "two") == str(older) != newer


def test_a_build_for_other_paths_is_given_to_no_new_container(host: Host) -> None:
    host.hook = host.files.install_hook("0.1.0", preload="/usr/local/vcuda/libvcuda.so\n")
    host.start_agent()
    with pytest.raises(AdmissionError, match=r"HostIncomplete: .*other paths .*hook_version"):
        hook_of(host, "p")
    (unready,) = [each for each in host.agent.condition.unready() if "get the hook" in each]
    assert "is a build for other paths" in unready


def test_a_container_starts_again_without_a_build_for_new_ones(host: Host) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 20, 32)))
    host.kubelet.admit(pod)
    host.stop_agent()
    host.hook = host.files.install_hook("0.0.9", preload="/usr/local/vcuda/libvcuda.so\n")
    host.start_agent()
    host.kubelet.start_container(pod, "c0", CORE)


@pytest.mark.parametrize("lost", ["folder", "library", "preload"])
def test_a_share_whose_hook_is_gone_does_not_start(host: Host, lost: str) -> None:
    # containerd would make an empty folder there, and ld.so passes over a preload like that.
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    gone = {
        "folder": host.hook,
        "library": host.hook / "libvcuda.so",
        "preload": host.hook / "ld.so.preload",
    }[lost]
    kept = gone.rename(host.root / "kept")
    with pytest.raises(AdmissionError, match=r"HostIncomplete: .* missing"):
        host.kubelet.start_container(pod, "c0", CORE)
    gone.mkdir()  # as a start without the agent does
    with pytest.raises(AdmissionError, match=r"HostIncomplete: .* missing"):
        host.kubelet.start_container(pod, "c0", CORE)
    gone.rmdir()
    kept.rename(gone)
    host.kubelet.start_container(pod, "c0", CORE)


@pytest.mark.parametrize("name", ["libvcuda.so", "ld.so.preload"])
@pytest.mark.parametrize("left", [b"", bytes(64)], ids=["empty", "zeros"])
def test_a_share_whose_hook_is_damaged_does_not_start(host: Host, name: str, left: bytes) -> None:
    """As a power cut leaves a file that was new: ld.so passes over a preload like that, too."""
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    whole = (host.hook / name).read_bytes()
    (host.hook / name).write_bytes(left)
    with pytest.raises(AdmissionError, match=r"HostIncomplete: the files in .*; or delete the pod"):
        host.kubelet.start_container(pod, "c0", CORE)
    (host.hook / name).write_bytes(whole)
    host.kubelet.start_container(pod, "c0", CORE)


def test_a_half_copied_build_is_given_to_no_pod(host: Host) -> None:
    host.start_agent()
    (host.hook / "libvcuda.so").write_text("the first bytes")
    with pytest.raises(AdmissionError, match=r"HostIncomplete: the files in .* are not"):
        hook_of(host, "p")


def test_a_build_that_was_mended_is_given_again(tmp_path: pathlib.Path) -> None:
    folder = build(tmp_path)
    library = folder / "libvcuda.so"
    sound = library.read_bytes()
    hook = HookBuild(folder)
    assert hook.folder() == folder
    library.write_bytes(b"other")
    with pytest.raises(HookError, match=r"run site\.yml"):
        hook.folder()
    library.write_bytes(sound)
    assert hook.folder() == folder


def test_a_build_without_its_library_is_refused(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "ld.so.preload").write_text("x")
    folder = folder.rename(tmp_path / f"1-{content_sum(folder)}")
    with pytest.raises(HookError, match=r"libvcuda\.so missing"):
        HookBuild(folder).folder()


def test_a_build_without_its_preload_is_refused(tmp_path: pathlib.Path) -> None:
    folder = build(tmp_path)
    (folder / "ld.so.preload").unlink()
    folder = folder.rename(tmp_path / f"1-{content_sum(folder)}")
    with pytest.raises(HookError, match=r"no hook in .*ld\.so\.preload.*; run site\.yml"):
        HookBuild(folder).folder()


@pytest.mark.parametrize(
    ("name", "mode"), [(".", 0o700), ("libvcuda.so", 0o600), ("ld.so.preload", 0o640)]
)
def test_a_build_that_tenants_can_not_read_is_refused(
    tmp_path: pathlib.Path, name: str, mode: int
) -> None:
    hook = HookBuild(build(tmp_path))
    folder = hook.folder()
    (folder / name).chmod(mode)
    with pytest.raises(HookError, match=r"may not read .*: chmod -R a\+rX"):
        hook.folder()


def test_a_fifo_in_a_build_is_refused_at_once(tmp_path: pathlib.Path) -> None:
    folder = build(tmp_path)
    os.mkfifo(folder / "pipe")
    with pytest.raises(HookError, match="pipe is no regular file"):
        HookBuild(folder).folder()


def test_a_build_that_is_removed_during_a_look_does_not_end_the_agent(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = build(tmp_path)
    list_folder = os.scandir

    def remove_first(path: Any = ".") -> Any:
        if path in (older, str(older)):
            shutil.rmtree(older, ignore_errors=True)
        return list_folder(path)

    shared = SharedFiles([tmp_path])
    monkeypatch.setattr(os, "scandir", remove_first)
    shared.keep()
    assert not older.exists()


def test_files_of_a_build_that_was_removed_are_closed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "other").mkdir()
    stays, goes = build(tmp_path), build(tmp_path / "other")
    shared = SharedFiles([tmp_path])
    shared.keep()
    shutil.rmtree(goes)
    shared.keep()
    assert open_files.below(goes) == []
    assert open_files.below(stays)
    shared.close()


def test_the_sum_is_that_of_sha256sum(tmp_path: pathlib.Path) -> None:
    folder = build(tmp_path)
    command = "LC_ALL=C; cd $1 && sha256sum * | sha256sum | cut -c1-8"
    done = subprocess.run(
        ["sh", "-c", command, "sh", folder], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == folder.name.rpartition("-")[2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("node_name: gpu1", "hook is missing"),
        ("hook: {context_bytes: 0}", "hook: version is missing"),
        ("hook: {version: auto}", "hook.version: 'auto' is not allowed"),
        ("hook: {version: 0.1.0}", "hook.version: '0.1.0' is not allowed"),
        ("hook: {version: ../x-00000000}", r"hook.version: '\.\./x-00000000' is not allowed"),
    ],
)
def test_a_configuration_without_a_build_is_refused(
    tmp_path: pathlib.Path, text: str, problem: str
) -> None:
    file = tmp_path / "agent.yml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        settings.load(file)


def build(root: pathlib.Path, preload: str = "/etc/vcuda/hook/libvcuda.so\n") -> pathlib.Path:
    """Return a sound build below a folder."""
    folder = root / "new"
    folder.mkdir()
    (folder / "libvcuda.so").write_text("library")
    (folder / "ld.so.preload").write_text(preload)
    return folder.rename(root / f"0.1.0-{content_sum(folder)}")
