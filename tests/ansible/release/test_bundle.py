"""The bundle is the same for the same sources, and names the command for a missing part."""

import importlib.util
import os
import pathlib
import re
import subprocess
import tarfile
import types
import zipfile

import pytest

from gpustack.adapters.hook_build import content_sum
from tests.ansible import layout


@pytest.fixture(scope="module")
def bundle() -> types.ModuleType:
    """Load the script that `make bundle` runs."""
    path = layout.ROOT / "playbooks" / "scripts" / "bundle.py"
    spec = importlib.util.spec_from_file_location("gpustack_bundle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins(name: str) -> dict[str, str]:
    """Return the versions that a lock file names."""
    text = (layout.ROOT / name).read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, re.MULTILINE))


def test_an_archive_does_not_depend_on_times_owners_or_order(
    bundle: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    members = [tmp_path / name for name in ("b.whl", "a.whl")]
    for member in members:
        member.write_bytes(member.name.encode())
    bundle.write_tar(tmp_path / "one.tar", members)
    os.utime(members[0], (1, 1))
    members[1].chmod(0o600)
    bundle.write_tar(tmp_path / "two.tar", reversed(members))
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as tar:
        assert tar.getnames() == ["a.whl", "b.whl"]


@pytest.mark.long
def test_our_wheel_is_whole_and_the_same_when_another_builds_it(
    bundle: types.ModuleType, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = [bundle.build_wheel(tmp_path)]
    # another controller, whose users' umask is 077 when they clone and build
    checkout = tmp_path / "checkout"
    before = os.umask(0o077)
    try:
        for name in bundle.SOURCES:
            source = layout.ROOT / name
            for path in [source, *source.rglob("*")]:
                if path.is_file():
                    copy = checkout / path.relative_to(layout.ROOT)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(path.read_bytes())
        monkeypatch.setattr(bundle, "ROOT", checkout)
        (tmp_path / "other").mkdir()
        wheels.append(bundle.build_wheel(tmp_path / "other"))
    finally:
        os.umask(before)
    assert bundle.sha256(wheels[0]) == bundle.sha256(wheels[1])
    with zipfile.ZipFile(wheels[0]) as wheel:
        missing = package_files() - set(wheel.namelist())
    assert missing == set()


def package_files() -> set[str]:
    """Return the files of our packages, which the programs read beside their code."""
    return {
        path.relative_to(layout.ROOT).as_posix()
        for package in ("gpustack", "extender")
        for path in (layout.ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_a_hook_that_was_not_built_is_named_with_its_build_command(
    bundle: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(bundle.BundleError, match=r"hook/out/mips/libvcuda\.so.*make -C hook"):
        bundle.copy_hook(tmp_path, ["mips"])


def test_a_build_of_the_hook_is_named_by_version_and_content(
    bundle: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    for name in ("ld.so.preload", "libvcuda.so", "gpustack-hook-selftest", "layouts"):
        (tmp_path / name).write_text(name)
    sums = {path.name: bundle.sha256(path) for path in tmp_path.iterdir()}
    build = bundle.hook_build("0.2.0rc1", sums)
    # the agent takes a folder of this name only when its files give the same sum
    assert build == f"0.2.0rc1-{content_sum(tmp_path)}"
    assert bundle.hook_build("0.2.0rc1", {**sums, "libvcuda.so": "0" * 64}) != build


def test_a_failing_pip_is_quoted(bundle: types.ModuleType) -> None:
    with pytest.raises(bundle.BundleError, match="no such option: --nonsense"):
        bundle.pip("download", "--nonsense")


def test_a_folder_of_something_else_is_not_replaced(
    bundle: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "photos").mkdir()
    with pytest.raises(bundle.BundleError, match="has photos in it and would be replaced"):
        bundle.build(tmp_path, ["3.11"], ["x86_64"])
    with pytest.raises(bundle.BundleError, match="is no folder"):
        bundle.build(tmp_path / "manifest.json", ["3.11"], ["x86_64"])
    assert (tmp_path / "photos").is_dir()
    (tmp_path / "photos").rename(tmp_path / "hook")
    bundle.check_output(tmp_path, bundle.PARTS)
    bundle.check_output(tmp_path / "new", bundle.PARTS)


def test_hosts_get_the_versions_that_were_tested() -> None:
    tested = pins("requirements.lock")
    # pip itself goes to hosts, since their Python may lack it; here it comes with Python.
    for name, version in pins("requirements-hosts.lock").items():
        assert name == "pip" or tested[name] == version, name


@pytest.mark.parametrize("lock", sorted(layout.ROOT.glob("requirements*.lock")), ids=str)
def test_every_locked_package_has_a_checksum(lock: pathlib.Path) -> None:
    text = lock.read_text("utf-8")
    assert "==" in text
    for entry in re.split(r"\n(?=[a-z0-9])", text):
        if "==" in entry:
            assert "--hash=sha256:" in entry, entry


def test_every_download_is_compared_with_a_checksum() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.sh", "Makefile"],
        cwd=layout.ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = 0
    for name in set(listed.stdout.split()) - {"tests/ansible/release/test_bundle.py"}:
        text = (layout.ROOT / name).read_text("utf-8")
        for call in re.finditer(r'pip"(, "| )(install|download)\b', text):
            found += 1
            around = text[max(0, call.start() - 600) : call.end() + 200]
            assert "--require-hashes" in around, f"{name}: {call[0]!r}"
    assert found >= 5
