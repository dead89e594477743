"""A release is notes, notices, wheel, bundle and their sums; its version stands in one place."""

import importlib
import pathlib
import re
import subprocess
import tarfile
import types

import pytest

import gpustack
from tests.ansible import layout

CHANGELOG = """# Changelog

## [Unreleased]
### Added
- something that is not released

## [1.2.0] - 2026-11-01
### Added
- a command
### Changed
- run `make bundle` again

## [1.1.0] - 2026-10-01
### Fixed
- an old fault
"""


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Load the script that `make release` runs, beside the one that `make bundle` runs."""
    monkeypatch.syspath_prepend(str(layout.ROOT / "playbooks" / "scripts"))
    return importlib.import_module("release")


def test_the_notes_begin_with_what_an_upgrade_needs(release: types.ModuleType) -> None:
    assert release.notes(CHANGELOG, "1.2.0") == (
        "# gpustack 1.2.0 (2026-11-01)\n\n# Before you upgrade\n\n## Changed\n"
        "- run `make bundle` again\n\n# What else is new\n\n## Added\n- a command\n"
    )


@pytest.mark.parametrize("version", ["1.3.0", "1.2", "Unreleased"])
def test_only_a_version_with_a_dated_section_is_released(
    release: types.ModuleType, version: str
) -> None:
    with pytest.raises(release.bundle.BundleError, match=r"CHANGELOG.md has no section `## \["):
        release.notes(CHANGELOG, version)


def test_every_package_of_the_bundle_has_a_notice(release: types.ModuleType) -> None:
    lock = (layout.ROOT / "requirements-hosts.lock").read_text("utf-8")
    named = re.findall(r"^={80}\n(\S+) (\S+): \S", release.notices(lock), re.MULTILINE)
    assert dict(named) == dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", lock, re.MULTILINE))


def test_a_package_of_another_version_has_no_notice(release: types.ModuleType) -> None:
    with pytest.raises(release.bundle.BundleError, match=r"flask \S+ is installed, 0.1 is locked"):
        release.notices("flask==0.1 \\\n    --hash=sha256:00\n")


def test_the_archive_of_a_bundle_depends_on_its_bytes_alone(
    release: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "bundle"
    (folder / "hook").mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    (folder / "hook" / "libvcuda.so").write_text("")
    release.pack(folder, tmp_path / "a.tar")
    before = (tmp_path / "a.tar").read_bytes()
    (folder / "manifest.json").chmod(0o600)
    release.pack(folder, tmp_path / "a.tar")
    assert (tmp_path / "a.tar").read_bytes() == before
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert tar.getnames() == ["a/hook/libvcuda.so", "a/manifest.json"]


def test_only_a_release_is_replaced_by_one(
    release: types.ModuleType, tmp_path: pathlib.Path
) -> None:
    parts = ["RELEASE-NOTES.md", "THIRD-PARTY-NOTICES.txt", "SHA256SUMS", "gpustack-bundle-1.2.tar",
             "gpustack-gpustack-1.2.0.tar.gz"]  # fmt: skip
    for name in (*parts, "gpustack_vcuda-1.2.0-py3-none-any.whl"):
        (tmp_path / name).touch()
    release.bundle.check_output(tmp_path, release.PARTS)
    (tmp_path / "photos").mkdir()
    with pytest.raises(release.bundle.BundleError, match="has photos in it and would be replaced"):
        release.build(tmp_path, ["3.11"], ["x86_64"])
    assert (tmp_path / "photos").is_dir()


def test_the_version_stands_in_one_place(release: types.ModuleType) -> None:
    assert release.collection.version() == gpustack.__version__
    run = subprocess.run(
        ["git", "grep", "-lwF", f'"{gpustack.__version__}"', "--", ":!*.lock", ":!tests"],
        cwd=layout.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["gpustack/__init__.py"]
