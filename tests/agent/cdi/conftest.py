import pytest

from gpustack.agent.cdi import devices


@pytest.fixture(autouse=True)
def short_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the agent look after the spec file ten times a second instead of once."""
    monkeypatch.setattr(devices, "_LOOK_SECONDS", 0.1)
