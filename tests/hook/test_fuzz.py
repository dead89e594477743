"""libFuzzer on the files that the hook reads and others write: limits, activity, ledger.

Inputs are the same each time: a fixed seed and a fixed number. `make -C hook fuzz` looks for new
ones. Inputs that it found once stand here, as lists of the fuzzer's operations.
"""

import pathlib
import shutil
import subprocess

import pytest

from tests.hook.container import HOOK, make
from tests.hook.drivers.debian import give_up

pytestmark = pytest.mark.long

RUNS = {"ledger": 15_000, "limiter": 4_000, "pages": 20_000}
UNITS_MAX = (1 << 36) - 1  # of a sum in the ledger


def number(value: int) -> bytes:
    """Write a number as `take_number` of hook/tests/fuzz/fuzz.h reads it."""
    return bytes([64]) + value.to_bytes(8, "little")


def add_units(units: int) -> bytes:
    """Process 0 asks for units of card 0, with the highest limit."""
    return bytes([1 << 2]) + number(units) + number(UNITS_MAX)


def agent_counts(busy_ns: int) -> bytes:
    """Two tenants want the card, and the agent has seen so much more GPU time of ours."""
    return bytes([4]) + number(0) + number(2) + bytes([0, 1]) + number(busy_ns)


LAUNCH = bytes([0]) + number(1_000)
A_SECOND_LATER = bytes([2]) + number(1_000_000_000)
LEDGER_COUNTS = bytes([5, 1, 0, 0, 1]) + number(1_000)  # GPU time in the slot of another process
HALF_OF_THE_CARD = bytes([0]) + number(1 << 30) + number(50) + number(50)

# The finding of each, and its cause.
FOUND = {
    "a sum as far as its word goes was given more": (
        "ledger",
        bytes([0, 1]) + add_units(UNITS_MAX - 10) + add_units(UNITS_MAX),
    ),
    "an agent's count of centuries left what a word of the audit holds": (
        "limiter",
        HALF_OF_THE_CARD
        + agent_counts(1)
        + LAUNCH
        + A_SECOND_LATER
        + LEDGER_COUNTS
        + agent_counts(3 << 62)
        + LAUNCH,
    ),
}


def fuzzer(name: str) -> pathlib.Path:
    """Build a fuzzer; skip, or fail under CI, where there is no clang to build it with."""
    if not (shutil.which("clang-14") or shutil.which("clang")):
        give_up("libFuzzer is clang's: install clang-14 and libclang-rt-14-dev")
    make(HOOK, f"out/fuzz/fuzz_{name}")
    return HOOK / "out" / "fuzz" / f"fuzz_{name}"


def run(folder: pathlib.Path, name: str, *arguments: str | pathlib.Path) -> None:
    """Run a fuzzer in a folder for the file of a finding."""
    result = subprocess.run(
        [fuzzer(name), *arguments], check=False, cwd=folder, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-8_000:]


@pytest.mark.parametrize("name", RUNS)
def test_no_input_is_found_that_breaks_a_rule(tmp_path: pathlib.Path, name: str) -> None:
    run(tmp_path, name, "-seed=1", f"-runs={RUNS[name]}", "-max_len=4096", "-len_control=0")


@pytest.mark.parametrize("what", FOUND)
def test_an_input_that_was_found_once_breaks_no_rule(tmp_path: pathlib.Path, what: str) -> None:
    name, data = FOUND[what]
    (tmp_path / "input").write_bytes(data)
    run(tmp_path, name, tmp_path / "input")
