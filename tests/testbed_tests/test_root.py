import io
import pathlib
import subprocess
import tarfile

import pytest

from tests.testbed import progress, root

PROGRAM = b"#!/bin/sh\necho it runs\n"


@pytest.fixture(autouse=True)
def built(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root of one program."""
    monkeypatch.setenv("GPUSTACK_CACHE", str(tmp_path))
    with tarfile.open(root.archive(), "w") as archive:
        member = tarfile.TarInfo("./usr/bin/etcd")
        member.size = len(PROGRAM)
        archive.addfile(member, io.BytesIO(PROGRAM))


def test_a_program_of_the_root_runs_here_without_its_package() -> None:
    program = root.program("etcd")
    assert subprocess.check_output([program], text=True) == "it runs\n"
    assert root.program("etcd") == program


def test_a_program_that_the_root_lacks_is_named() -> None:
    with pytest.raises(progress.TestbedError, match="lacks usr/bin/none"):
        root.program("none")


def test_a_release_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSTACK_TESTBED_SUITE", "buster")
    with pytest.raises(progress.TestbedError, match="is 'buster'; set bookworm or trixie"):
        root.image()


def test_the_roots_of_two_releases_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    first = root.archive()
    monkeypatch.setenv("GPUSTACK_TESTBED_SUITE", "trixie")
    assert root.archive() not in (first, root.archive("bookworm"))
    assert first == root.archive("bookworm")
