"""A card that is mute, falls off, comes back or moves, as NVML tells of it; others work on."""

import pathlib
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pynvml
import pytest

from gpustack.adapters.nvml import CardFault, Nvml, calls, cards, loading
from tests.adapters.nvml import fake_driver
from tests.adapters.nvml.fake_driver import FakeCard, FakeDriver

NOWHERE = pathlib.Path("/nonexistent")
LOST = pynvml.NVML_ERROR_GPU_IS_LOST


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver(cards=fake_driver.cards(2))
    driver.install(monkeypatch)
    return driver


@pytest.fixture
def nvml(driver: FakeDriver) -> Nvml:
    nvml = Nvml(sysfs=NOWHERE)
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


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver(cards=fake_driver.cards(3))
    driver.install(monkeypatch)
    return driver


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Set at the end: the threads that hang end."""
    event = threading.Event()
    yield event
    event.set()


def _hangs(call: Callable[..., Any], card: FakeCard, let_go: threading.Event) -> Callable[..., Any]:
    def hanging(*arguments: Any) -> Any:
        if card in arguments:
            let_go.wait()
        return call(*arguments)

    return hanging


@pytest.mark.parametrize(
    "query",
    [
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetMPSComputeRunningProcesses",
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGetNvLinkState",
    ],
)
def test_a_card_that_hangs_at_the_start_is_left_out_and_named(
    three: FakeDriver, let_go: threading.Event, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(cards, "_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(calls, "_DRAIN_SECONDS", 0.1)
    stops: list[bool] = []
    monkeypatch.setattr(loading, "stop", lambda: stops.append(True))
    monkeypatch.setattr(pynvml, query, _hangs(getattr(pynvml, query), three.cards[1], let_go))
    nvml = Nvml(sysfs=NOWHERE)
    found = nvml.inventory()
    assert [card.minor for card in found.cards] == [0, 2]
    assert found.left_out == ("card of index 1 gives no answer within 0.5 s",)
    assert nvml.faults() == ()
    assert nvml.hung_seconds == 0, "the watchdog would start the agent anew for ever"
    nvml.close()
    assert not stops, "a call is in the library"


def test_a_card_that_says_it_has_the_memory_of_none_is_left_out(
    three: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device ID for each 256 MiB of it would fill the host's memory."""
    asked = pynvml.nvmlDeviceGetMemoryInfo

    def memory(card: FakeCard, *version: int) -> Any:
        if card is three.cards[1]:
            return types.SimpleNamespace(total=1 << 63, used=0)
        return asked(card, *version)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", memory)
    found = Nvml(sysfs=NOWHERE).inventory()
    assert [card.minor for card in found.cards] == [0, 2]
    (left_out,) = found.left_out
    assert "card of index 1" in left_out
    assert f"{1 << 63} bytes of memory" in left_out


def test_a_card_that_refuses_at_the_start_is_named(three: FakeDriver) -> None:
    three.refused["nvmlDeviceGetUUID", 2] = pynvml.NVML_ERROR_GPU_IS_LOST
    found = Nvml(sysfs=NOWHERE).inventory()
    assert [card.minor for card in found.cards] == [0, 1]
    assert found.left_out == ("card of index 2 does not answer: GPU is lost",)


def test_a_card_that_answers_to_a_new_handle_has_its_minor_read_again(three: FakeDriver) -> None:
    nvml = Nvml(sysfs=NOWHERE)
    nvml.inventory()
    before = nvml.opened
    three.refused["nvmlDeviceGetMemoryInfo", 0] = pynvml.NVML_ERROR_GPU_IS_LOST
    assert nvml.faults() == (CardFault(uuid="GPU-0", reason="Lost"),)
    assert nvml.opened == before
    three.cards.append(FakeCard(minor=5, uuid="GPU-0", bus="00000000:41:00.0"))
    assert nvml.faults() == ()
    assert nvml.opened == before + 1
    three.refused["nvmlDeviceGetHandleByIndex", None] = pynvml.NVML_ERROR_GPU_IS_LOST
    assert {card.minor for card in nvml.inventory().cards} == set()
    three.refused.clear()
    del three.cards[0]
    assert [card.minor for card in nvml.inventory().cards] == [1, 2, 5]


def test_a_card_that_a_new_library_lacks_is_lost(
    three: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "unload", lambda: None)
    nvml = Nvml(sysfs=NOWHERE)
    nvml.inventory()
    three.refused["nvmlDeviceGetMemoryInfo", None] = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    assert {fault.reason for fault in nvml.faults()} == {"DriverMismatch"}
    three.refused.clear()
    del three.cards[1]
    assert nvml.faults() == (CardFault(uuid="GPU-1", reason="Lost"),)
    assert nvml.next_fault(0) is None
    assert three.events[-1] == {"GPU-0", "GPU-2"}
    three.cards.append(FakeCard(minor=7, uuid="GPU-1", bus="00000000:41:00.0"))
    assert nvml.faults() == ()


def test_the_reason_of_a_closed_library_stays_as_long_as_it_is(
    three: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_DRAIN_SECONDS", 0.01)
    nvml = Nvml(sysfs=NOWHERE)
    nvml.inventory()
    three.refused["nvmlDeviceGetMemoryInfo", None] = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    nvml.faults()
    with nvml._calls.one():
        nvml.faults()
        told = nvml.problem
        nvml.faults()
        assert nvml.problem == told
