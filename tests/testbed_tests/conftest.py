"""A testbed that exists on paper only."""

import pathlib

import pytest

from tests.testbed import description


@pytest.fixture
def state_root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    folder = tmp_path / "testbeds"
    monkeypatch.setenv("GPUSTACK_TESTBED_STATE", str(folder))
    return folder


@pytest.fixture
def testbed(state_root: pathlib.Path) -> description.Testbed:
    planned = description.plan("paper", 2, "10.89.7.0/24", cluster=True)
    planned.state.mkdir(parents=True)
    return planned
