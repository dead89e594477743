import pathlib
from collections.abc import Iterator

import pytest

from gpustack.agent.containers import decisions
from tests.agent.activity import activity
from tests.agent.activity.activity import Stage
from tests.agent.host import Host
from tests.fakes.service_manager import FakeServiceManager


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Iterator[Host]:
    with Host(tmp_path) as host:
        yield host


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Allocate wait half a second instead of four for cards that ended pods may hold."""
    monkeypatch.setattr(decisions, "_WAIT_SECONDS", 0.5)


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Iterator[Stage]:
    with activity.stage(tmp_path) as stage:
        yield stage


@pytest.fixture
def service_manager(tmp_path: pathlib.Path) -> Iterator[FakeServiceManager]:
    with FakeServiceManager(tmp_path / "notify.sock") as manager:
        yield manager
