"""A release is one archive, which is unpacked only as it was signed; its parts are listed."""

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import types
from collections.abc import Callable, Sequence

import jsonschema
import pytest

from tests.ansible import layout

WHO = "release@example.com"
# https://cyclonedx.org/schema/bom-1.4.schema.json
SCHEMA = layout.ROOT / "tests" / "data" / "cyclonedx" / "bom-1.4.schema.json"
WHEELS = {"flask-3.1.3-py3-none-any.whl": b"f", "gpustack_vcuda-0.1.0-py3-none-any.whl": b"o"}


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(layout.ROOT / "playbooks" / "scripts"))
    return importlib.import_module("release")


def make_key(folder: pathlib.Path, name: str) -> pathlib.Path:
    key = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
    subprocess.run(command, check=True)
    return key


@pytest.fixture
def key(tmp_path: pathlib.Path) -> pathlib.Path:
    return make_key(tmp_path, "key")


@pytest.fixture
def archive(release: types.ModuleType, tmp_path: pathlib.Path, key: pathlib.Path) -> pathlib.Path:
    """Return a small signed archive, with a signers' file beside it."""
    folder = tmp_path / "release"
    folder.mkdir()
    for name, content in {"a.whl": b"a" * 70_000, "NOTES.txt": b"words"}.items():
        (folder / name).write_bytes(content)
    return sealed(release, folder, key)


def sealed(
    release: types.ModuleType, folder: pathlib.Path, key: pathlib.Path, sums: str | None = None
) -> pathlib.Path:
    """Pack a folder with its sums (or those given), and sign the archive."""
    right = "".join(
        f"{release.bundle.sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir())
    )
    (folder / "SHA256SUMS").write_text(right if sums is None else sums)
    made = folder.parent / "gpustack-1.2.tar"
    release.pack(folder, made)
    release.sign(made, key)
    (folder.parent / "signers").write_text(
        f'{WHO} namespaces="gpustack-release" {key.with_suffix(".pub").read_text()}'
    )
    return made


def unpacked(archive: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Run the script as a site does: with its own Python and no file of ours beside it."""
    script = archive.parent / "unpack.py"
    shutil.copyfile(layout.ROOT / "playbooks" / "scripts" / "unpack.py", script)
    return subprocess.run(
        [sys.executable, "-I", str(script), f"--signers={archive.parent / 'signers'}",
         f"--identity={WHO}", str(archive), str(archive.parent / "site" / "new")],
        text=True, capture_output=True, check=False,
    )  # fmt: skip


def refused(archive: pathlib.Path) -> str:
    """Return the one message of a run that has written nothing."""
    done = unpacked(archive)
    assert done.returncode == 1, done.stdout + done.stderr
    assert not (archive.parent / "site").exists()
    assert done.stderr.startswith("unpack: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_an_archive_as_it_was_signed_is_unpacked(archive: pathlib.Path) -> None:
    done = unpacked(archive)
    assert done.returncode == 0, done.stderr
    found = {path.name: path.read_bytes() for path in (archive.parent / "site/new").iterdir()}
    assert sorted(found) == ["NOTES.txt", "SHA256SUMS", "a.whl"]
    assert found["a.whl"] == b"a" * 70_000
    again = unpacked(archive)
    assert (again.returncode, "is there: name a folder" in again.stderr) == (1, True)


def cut(archive: pathlib.Path) -> None:
    os.truncate(archive, archive.stat().st_size // 2)


def changed(archive: pathlib.Path) -> None:
    content = bytearray(archive.read_bytes())
    content[600] ^= 1
    archive.write_bytes(content)


def signed_by_another(archive: pathlib.Path) -> None:
    signature = archive.with_name(f"{archive.name}.sig")
    signature.unlink()
    other = make_key(archive.parent, "other")
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", other, "-n", "gpustack-release", archive],
        check=True, capture_output=True,
    )  # fmt: skip


def signed_for_something_else(archive: pathlib.Path) -> None:
    archive.with_name(f"{archive.name}.sig").unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", archive.parent / "key", "-n", "git", archive],
        check=True, capture_output=True,
    )  # fmt: skip


@pytest.mark.parametrize("harm", [cut, changed, signed_by_another, signed_for_something_else])
def test_what_was_not_signed_so_is_refused(
    archive: pathlib.Path, harm: Callable[[pathlib.Path], None]
) -> None:
    harm(archive)
    assert "the signature is not one of release@example.com" in refused(archive)


def test_an_archive_without_a_signature_is_refused(archive: pathlib.Path) -> None:
    archive.with_name(f"{archive.name}.sig").unlink()
    assert "gpustack-1.2.tar.sig is missing: copy it here" in refused(archive)


@pytest.mark.parametrize(
    ("sums", "named"),
    [
        ("", "NOTES.txt, a.whl is missing, or not as SHA256SUMS has it"),
        (f"{'0' * 64}  a.whl\n", "NOTES.txt, a.whl is missing, or not as SHA256SUMS has it"),
        (f"{'0' * 64}  gone.whl\n", "NOTES.txt, a.whl, gone.whl is missing"),
    ],
)
def test_a_signed_archive_with_wrong_sums_is_refused(
    release: types.ModuleType, archive: pathlib.Path, sums: str, named: str
) -> None:
    folder = archive.parent / "release"
    archive.with_name(f"{archive.name}.sig").unlink()
    (folder / "SHA256SUMS").unlink()
    assert named in refused(sealed(release, folder, archive.parent / "key", sums))


@pytest.mark.parametrize("size", [0, 100, 600, 80_000])
def test_a_cut_archive_that_someone_signed_is_refused(
    release: types.ModuleType, archive: pathlib.Path, size: int
) -> None:
    os.truncate(archive, min(size, archive.stat().st_size - 12_000))
    archive.with_name(f"{archive.name}.sig").unlink()
    release.sign(archive, archive.parent / "key")
    assert "fetch it again" in refused(archive)


@pytest.mark.parametrize("name", ["a/../../x", "/x/y", "x", "a/b/c"])
def test_a_path_out_of_the_folder_is_refused(
    release: types.ModuleType, archive: pathlib.Path, name: str
) -> None:
    with tarfile.open(archive, "a") as tar:
        tar.addfile(tarfile.TarInfo(name))
    archive.with_name(f"{archive.name}.sig").unlink()
    release.sign(archive, archive.parent / "key")
    assert "is no plain file of a release" in refused(archive)


def test_a_key_that_can_not_sign_is_named(release: types.ModuleType, archive: pathlib.Path) -> None:
    with pytest.raises(release.bundle.BundleError, match=r"nothing: No such file"):
        release.sign(archive, archive.parent / "nothing")


def fake_bundle(folder: pathlib.Path, pythons: Sequence[str], architectures: Sequence[str]) -> None:
    """Write what `bundle.build` does, with one wheel of another, ours, and an empty hook."""
    import bundle  # type: ignore[import-not-found]  # noqa: PLC0415

    folder.mkdir()
    members = []
    for name, content in WHEELS.items():
        (folder / name).write_bytes(content)
        members.append(folder / name)
    bundle.write_tar(folder / "any.tar", members)
    for member in members:
        member.unlink()
    hook = {
        one: {"build": "0.1.0-01234567", "files": {"libvcuda.so": "0" * 64}}
        for one in architectures
    }
    manifest = {"version": "0.1.0", "hook": hook, "wheels": {"archives": {"any.tar": ""}}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.long
def test_two_builds_of_a_release_are_the_same_and_list_their_parts(
    release: types.ModuleType,
    tmp_path: pathlib.Path,
    key: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(release.bundle, "build", fake_bundle)
    version = release.collection.version()
    dated = f"# Changelog\n\n## [{version}] - 2026-11-01\n### Added\n- all\n"
    real = pathlib.Path.read_text

    def read(path: pathlib.Path, *arguments: str, **named: str) -> str:
        return dated if path.name == "CHANGELOG.md" else real(path, *arguments, **named)

    monkeypatch.setattr(pathlib.Path, "read_text", read)
    made = []
    for name, umask in {"one": 0o022, "two": 0o077}.items():
        before = os.umask(umask)
        try:
            release.build(tmp_path / name, ["3.11"], ["x86_64"], key)
        finally:
            os.umask(before)
        made.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert made[0] == made[1]
    whole = f"gpustack-{version}.tar"
    listed = {line.split()[1] for line in made[0]["SHA256SUMS"].decode().splitlines()}
    assert listed == set(made[0]) - {"SHA256SUMS", whole, f"{whole}.sig"}
    assert {"sbom.cdx.json", "unpack.py", f"gpustack-gpustack-{version}.tar.gz"} < listed
    with tarfile.open(tmp_path / "one" / whole) as tar:
        assert {name.partition("/")[2] for name in tar.getnames()} == {*listed, "SHA256SUMS"}
    bill = json.loads(made[0]["sbom.cdx.json"])
    jsonschema.Draft7Validator(json.loads(real(SCHEMA))).validate(bill)
    assert {each["bom-ref"] for each in bill["components"]} == {
        *WHEELS, "hook/x86_64/libvcuda.so",
    }  # fmt: skip
    flask = next(each for each in bill["components"] if each["name"] == "flask")
    assert flask["purl"] == "pkg:pypi/flask@3.1.3?file_name=flask-3.1.3-py3-none-any.whl"
    assert flask["licenses"] == [{"license": {"name": "BSD-3-Clause"}}]
