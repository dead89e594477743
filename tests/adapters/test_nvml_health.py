"""A card that falls off and comes back, as NVML tells of it."""

import pathlib

import pynvml
import pytest

from gpustack.adapters.nvml import CardFault, Nvml
from tests.adapters.fake_driver import FakeCard, FakeDriver, cards

LOST = pynvml.NVML_ERROR_GPU_IS_LOST


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver(cards=cards(2))
    driver.install(monkeypatch)
    return driver


@pytest.fixture
def nvml(driver: FakeDriver) -> Nvml:
    nvml = Nvml(sysfs=pathlib.Path("/nonexistent"))
    nvml.inventory()
    return nvml


def test_a_card_that_answers_to_a_new_handle_only_is_well_and_known_by_it(
    driver: FakeDriver, nvml: Nvml
) -> None:
    driver.refused["nvmlDeviceGetMemoryInfo", 0] = LOST
    driver.refused["nvmlDeviceGetComputeRunningProcesses", 0] = LOST
    assert nvml.faults() == (CardFault(uuid="GPU-0", reason="Lost"),)
    driver.cards.append(FakeCard(minor=0, uuid="GPU-0", bus="00000000:41:00.0"))
    assert nvml.faults() == ()
    assert nvml.processes("GPU-0") == ()


def test_a_new_handle_that_fails_too_leaves_the_card_unchanged(
    driver: FakeDriver, nvml: Nvml
) -> None:
    driver.cards.append(FakeCard(minor=0, uuid="GPU-0", bus="00000000:41:00.0"))
    driver.refused["nvmlDeviceGetMemoryInfo", None] = pynvml.NVML_ERROR_UNKNOWN
    assert [fault.reason for fault in nvml.faults()] == ["NoAnswer", "NoAnswer"]
    driver.refused.clear()
    assert nvml.faults() == ()


def test_a_lost_card_gets_its_events_again_and_the_others_keep_theirs(
    driver: FakeDriver, nvml: Nvml
) -> None:
    driver.refused["nvmlDeviceGetMemoryInfo", 0] = LOST
    driver.refused["nvmlDeviceRegisterEvents", 0] = LOST
    nvml.faults()
    assert nvml.next_fault(0) is None
    assert driver.events == [{"GPU-1"}]
    driver.refused.clear()
    assert nvml.faults() == ()
    assert nvml.next_fault(0) is None
    assert driver.events == [{"GPU-0", "GPU-1"}]


def test_what_the_driver_asks_for_is_a_fault_until_it_was_done(
    driver: FakeDriver, nvml: Nvml
) -> None:
    driver.asks_for["GPU-0"] = pynvml.NVML_GPU_RECOVERY_ACTION_NONE
    driver.asks_for["GPU-1"] = pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT
    assert nvml.faults() == (CardFault(uuid="GPU-1", reason="RecoveryNeeded"),)
    driver.asks_for["GPU-1"] = pynvml.NVML_GPU_RECOVERY_ACTION_NONE
    assert nvml.faults() == ()


def test_a_page_that_waits_to_be_retired_is_a_fault(driver: FakeDriver, nvml: Nvml) -> None:
    driver.retiring.add("GPU-0")
    driver.refused["nvmlDeviceGetRemappedRows", None] = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert nvml.faults() == (CardFault(uuid="GPU-0", reason="RetirementPending"),)
