"""The model's steps are the code's: schedules are played on both, operation by operation.

The code runs with each of its atomic operations and locks announced before it is done
(``hook/tests/steps/traced.h``), so that the schedule gives the turns. Functions,
operations, words, slots and the values that were read must be the model's.
"""

import pathlib
import random
import subprocess

import pytest

from tests.hook.container import HOOK, make
from tests.hook.model.calls import TABLE
from tests.hook.model.machine import Event, Machine
from tests.hook.model.state import Bounds, Process

BOUNDS = Bounds(processes=3, slots=4, limit=3)
SCRIPTS = [
    ["open, charge 1, charge 3, return 1, look"],
    ["open, charge 2, return 2", "open, charge 2, look"],
    ["open, charge 3, exec, open, charge 2", "open, charge 1, return 1, charge 2", "open, look"],
    ["open, charge 2, charge 1", "open, charge 3", "open, charge 3"],
]
SCHEDULES = 60  # of each set of scripts
# Schedules of so few processes leave a slot free.
UNREACHED = {"open fails"}


@pytest.fixture(scope="session")
def program(build: pathlib.Path) -> pathlib.Path:
    make(HOOK, "out/test/steps_ledger")
    return build / "test" / "steps_ledger"


def play(scripts: list[str], seed: int) -> tuple[str, list[Event]]:
    """Walk through the model by chance; return the way as a line for the program, and its events.

    A process goes on for a while: with turns of one step each a process would seldom get far.
    """
    chance = random.Random(seed)  # noqa: S311
    machine = Machine(BOUNDS._replace(processes=len(scripts)), scripts)
    shared = machine.start()
    processes = [Process(number=number) for number in range(len(scripts))]
    tokens, events = [], []
    while waiting := [each for each in processes if not machine.is_idle(each)]:
        number = chance.choice(waiting).number
        if len(scripts) > 1 and chance.random() < 0.02:
            shared, processes[number] = machine.kill(shared, processes[number])
            tokens.append(f"x{number}")
            continue
        for _ in range(chance.choice([1, 1, 2, 5, 30])):
            if machine.is_idle(processes[number]):
                break
            ((shared, processes[number]), event), *_ = machine.step(shared, processes[number])
            if event.operation != "nothing":
                events.append(event)
                tokens.append(str(number))
    return "|".join([str(BOUNDS.limit), *scripts, " ".join(tokens)]), events


def written(event: Event) -> str:
    return (
        f"{event.process} {event.function} {event.operation} {event.word}"
        f" {event.slot} {event.outcome}"
    )


@pytest.mark.parametrize("scripts", SCRIPTS, ids=len)
def test_the_code_does_what_the_model_does_step_by_step(
    program: pathlib.Path, tmp_path: pathlib.Path, scripts: list[str]
) -> None:
    played = [play(scripts, seed) for seed in range(SCHEDULES if len(scripts) > 1 else 1)]
    result = subprocess.run(
        [program], input="".join(f"{line}\n" for line, _ in played), cwd=tmp_path,
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    found = result.stdout.split("end\n")[:-1]
    for (line, events), lines in zip(played, found, strict=True):
        assert lines.splitlines() == [written(event) for event in events], line


def test_these_schedules_come_through_every_row_of_the_model() -> None:
    reached = {
        (event.function, event.operation, event.word)
        for scripts in SCRIPTS
        for seed in range(SCHEDULES)
        for event in play(scripts, seed)[1]
    }
    assert {(step.function, step.operation, step.word) for label, step in TABLE.items()
            if label not in UNREACHED} <= reached  # fmt: skip
