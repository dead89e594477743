"""A card's memory that the driver shows for no process."""

import pathlib
import types
from typing import Any

import pynvml
import pytest

from gpustack.adapters.nvml import Nvml, NvmlError
from tests.adapters.nvml import fake_driver
from tests.adapters.nvml.fake_driver import FakeDriver

COMPUTE, GRAPHICS, MPS = (
    f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")
)


def process(pid: int, used: int | None) -> Any:
    return types.SimpleNamespace(pid=pid, usedGpuMemory=used)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    FakeDriver(cards=fake_driver.cards(1)).install(monkeypatch)
    nvml = Nvml(sysfs=pathlib.Path("/nonexistent"))
    nvml.inventory()
    show(monkeypatch, compute=[], graphics=[])
    return nvml


def show(
    monkeypatch: pytest.MonkeyPatch,
    *,
    compute: list[Any],
    graphics: list[Any],
    mps: tuple[Any, ...] = (),
) -> None:
    """Let 100 bytes be in use, 900 with the driver's reserve, and these processes have theirs."""
    monkeypatch.setattr(pynvml, COMPUTE, lambda _: compute)
    monkeypatch.setattr(pynvml, GRAPHICS, lambda _: graphics)
    monkeypatch.setattr(pynvml, MPS, lambda _: mps)
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetMemoryInfo",
        lambda _, version=None: types.SimpleNamespace(used=100 if version else 900),
    )


def test_what_no_process_has_is_unowned_and_the_reserve_is_not(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nvml.unowned_bytes("GPU-0") == 100
    # PID 2 is of both kinds, and counts once.
    show(monkeypatch, compute=[process(1, 30), process(2, 20)], graphics=[process(2, 20)])
    assert nvml.unowned_bytes("GPU-0") == 50
    show(monkeypatch, compute=[process(1, 130)], graphics=[])
    assert nvml.unowned_bytes("GPU-0") == 0, "one that was about to give something back"


def test_nothing_is_unowned_where_the_driver_says_nothing_of_processes(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    show(monkeypatch, compute=[process(1, 30), process(2, None)], graphics=[])
    assert nvml.unowned_bytes("GPU-0") == 0


def test_a_driver_without_the_newer_question_is_asked_the_older(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(_: Any, version: int | None = None) -> Any:
        if version:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return types.SimpleNamespace(used=70)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", used)
    assert nvml.unowned_bytes("GPU-0") == 70


def test_a_card_that_is_lost_says_so(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    def used(*_: Any) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", used)
    with pytest.raises(NvmlError, match="GPU-0"):
        nvml.unowned_bytes("GPU-0")


def test_processes_of_graphics_and_of_mps_are_on_the_card_as_others_are(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Vulkan has memory and time beyond a share, and no count or Event shows it."""
    graphics = [process(1, 30), process(2, 20)]
    show(monkeypatch, compute=[process(1, 30)], graphics=graphics, mps=(process(3, 10),))
    found = {each.pid: each.memory_bytes for each in nvml.processes("GPU-0")}
    assert found == {1: 30, 2: 20, 3: 10}
    assert nvml.unowned_bytes("GPU-0") == 40


def test_memory_of_a_process_that_no_card_has_says_nothing(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Added up it fits into no page of the agent's, which would end, again and again."""
    show(monkeypatch, compute=[process(1, (1 << 64) - 2), process(2, 30)], graphics=[])
    assert {each.pid: each.memory_bytes for each in nvml.processes("GPU-0")} == {1: 0, 2: 30}
    assert nvml.unowned_bytes("GPU-0") == 0


@pytest.mark.parametrize(
    "refusal",
    [
        pynvml.NVMLLibraryMismatchError(),
        pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND),
        pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED),
    ],
)
def test_a_driver_that_knows_no_mps_shows_the_other_processes(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    def mps(_: Any) -> Any:
        raise refusal

    show(monkeypatch, compute=[process(1, 30)], graphics=[])
    monkeypatch.setattr(pynvml, MPS, mps)
    assert [each.pid for each in nvml.processes("GPU-0")] == [1]
