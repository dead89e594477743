"""Fetching Debian's files: the outcome where no archive answers."""

import pathlib

import pytest

from tests.hook.drivers.debian import Package, unpacked

PACKAGE = Package(suite="bookworm", name="musl")


@pytest.fixture(autouse=True)
def _unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("GPUSTACK_CACHE", str(tmp_path))
    monkeypatch.setenv("GPUSTACK_TESTBED_MIRROR", f"file:{tmp_path}/nowhere")


def test_without_an_archive_the_test_is_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="musl of Debian bookworm can't") as skipped:
        unpacked(PACKAGE)
    assert "a mirror that this machine reaches" in str(skipped.value), "it says what to do"


def test_under_ci_it_fails_and_leaves_nothing_half_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="musl of Debian bookworm can't be fetched"):
        unpacked(PACKAGE)
    assert not list((tmp_path / "debian").glob("*musl*"))
