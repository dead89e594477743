"""XIDs by NVIDIA's table, and calls into NVML that are counted."""

import threading

import pytest

from gpustack.adapters.nvml import ENDS_WORDS, XID_RULES, CardFault, Ends, NvmlError, xid_fault
from gpustack.adapters.nvml import calls as calls_module
from gpustack.adapters.nvml.calls import CallsInFlight


@pytest.mark.parametrize("number", [13, 31, 32, 43, 45, 63, 68, 69, 92, 94])
def test_an_xid_that_a_program_causes_leaves_the_card_in_use(number: int) -> None:
    assert xid_fault("GPU-1", number).ends is Ends.NEVER_BEGAN


@pytest.mark.parametrize("number", [46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 140, 143, 158])
def test_an_xid_that_asks_for_a_reset_lasts_until_one(number: int) -> None:
    assert xid_fault("GPU-1", number).ends is Ends.RESET


def test_the_text_of_an_xid_says_what_nvidia_says_to_do() -> None:
    assert xid_fault("GPU-1", 119).text == (
        "XID 119, GSP firmware did not answer in time; NVIDIA's action: RESET_GPU"
        f" ({ENDS_WORDS[Ends.RESET]})"
    )
    assert xid_fault("GPU-1", 500).text.startswith("XID 500, not in our table")


def test_every_row_has_its_own_number_and_words() -> None:
    assert all(number == rule.number for number, rule in XID_RULES.items())
    assert all(rule.meaning and rule.action for rule in XID_RULES.values())


@pytest.mark.parametrize("reason", ["Xid", "Xidx", "Xid-1", "Lost", "", "xid48"])
def test_a_reason_that_names_no_xid_has_no_rule(reason: str) -> None:
    fault = CardFault(uuid="GPU-1", reason=reason)
    assert (fault.xid, fault.ends) == (None, None)


def test_the_age_is_that_of_the_oldest_call() -> None:
    now = [0.0]
    calls = CallsInFlight(clock=lambda: now[0])
    assert calls.oldest_seconds == 0
    with calls.one():
        now[0] = 5.0
        with calls.one():
            assert calls.oldest_seconds == 5
        assert calls.oldest_seconds == 5
    assert calls.oldest_seconds == 0


def test_no_call_passes_a_gate_that_is_shut() -> None:
    calls = CallsInFlight()
    calls.shut("being opened again")
    with pytest.raises(NvmlError, match="being opened again"), calls.one():
        pass
    calls.open()
    with calls.one():
        pass


def test_a_gate_is_shut_once_the_last_call_has_returned() -> None:
    calls, entered, leave = CallsInFlight(), threading.Event(), threading.Event()

    def work() -> None:
        with calls.one():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)
    leaver = threading.Timer(0.05, leave.set)
    leaver.start()
    calls.shut("closed")
    assert leave.is_set()
    thread.join()
    leaver.join()


def test_a_call_that_hangs_does_not_hold_up_the_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "_DRAIN_SECONDS", 0.01)
    calls = CallsInFlight()
    with calls.one(), pytest.raises(NvmlError, match=r"closed; a call has not returned for 0.01 s"):
        calls.shut("closed")
