"""cards.json, and the tools that read it."""

import pytest

from tests.simgpu_tests.conftest import Start
from tests.simgpu_tests.machine import Machine

TWO = [{"minor": 0}, {"minor": 1}]

WRONG = [
    ({"cards": TWO, "gpus": 2}, "gpus: unknown key"),
    ({}, "cards: missing"),
    ({"cards": [{"uuid": "GPU-1"}]}, "cards[0].minor: missing"),
    ({"cards": [{"minor": 0, "memory": 1.5}]}, "cards[0].memory: not a whole number"),
    ({"cards": [{"minor": 0, "memory": "80G"}]}, "cards[0].memory: not a whole number"),
    ({"cards": [{"minor": 0, "color": "red"}]}, "cards[0].color: unknown key"),
    ({"cards": [{"minor": 0, "bus": "7"}]}, "cards[0].bus: not like 0000:07:00.0"),
    ({"cards": [{"minor": 0}, {"minor": 0}]}, "cards[1].: minor, uuid or bus as cards[0]"),
    ({"cards": TWO, "cuda": "twelve"}, "cuda: not a text like"),
    ({"cards": TWO, "links": [["X", "NV19"], ["NV19", "X"]]}, "links[0][1]: not one of"),
    ({"cards": TWO, "links": [["X", "PIX"], ["PXB", "X"]]}, "links[1][0]: differs"),
    ({"cards": TWO, "links": [["X"]]}, "links[0]: 1 columns for 2 cards"),
    ({"cards": [{"minor": minor} for minor in range(17)]}, "cards: more than 16"),
]


@pytest.mark.parametrize(("description", "message"), WRONG)
def test_a_wrong_description_is_refused_by_the_name_of_its_key(
    bare_machine: Machine, description: dict[str, object], message: str
) -> None:
    bare_machine.describe(description)
    assert message in bare_machine.run("bin/simgpu", "init", status=1).stderr


@pytest.mark.parametrize("text", ["", "{", '{"cards": [', "[1,", '{"cards": []} x', "[" * 99])
def test_text_that_is_not_json_is_refused_with_its_line(bare_machine: Machine, text: str) -> None:
    (bare_machine.folder / "cards.json").write_text(text)
    assert "line 1:" in bare_machine.run("bin/simgpu", "init", status=1).stderr


def test_a_wrong_description_leaves_the_state_alone(machine: Machine) -> None:
    before = machine.run("bin/simgpu", "show").stdout
    machine.describe({"cards": "none"})
    machine.run("bin/simgpu", "init", status=1)
    assert machine.run("bin/simgpu", "show").stdout == before


def test_init_keeps_what_is_there_and_reset_does_not(machine: Machine) -> None:
    machine.run("bin/simgpu", "xid", "0", "31")
    machine.start(0, 1)
    assert "1 XIDs" in machine.run("bin/simgpu", "show").stdout
    machine.run("bin/simgpu", "reset")
    assert "0 XIDs" in machine.run("bin/simgpu", "show").stdout


def test_a_new_description_is_written_in_place(machine: Machine) -> None:
    state = machine.folder / "lib" / "state"
    inode = state.stat().st_ino
    machine.describe({"cards": [{"minor": 5}]})
    machine.run("bin/simgpu", "init")
    assert machine.run("bin/simgpu", "minors").stdout == "5\n"
    assert state.stat().st_ino == inode


def test_a_driver_in_use_stays_loaded_and_another_fits_no_library(
    machine: Machine, client: Start
) -> None:
    running = client("0", "alloc", "1048576")
    machine.describe({"driver": "550.163.01", "cards": [{"minor": 0}]})
    assert "stays loaded" in machine.run("bin/simgpu", "init").stderr
    machine.run("tests/client", "0", "tries", "1")
    running.kill()
    running.communicate()
    assert not machine.run("bin/simgpu", "init").stderr
    refused = machine.run("tests/client", "0", "tries", "1", status=1).stderr
    assert "answered 803" in refused
    assert "Driver/library version mismatch" in machine.run("bin/nvidia-smi", status=18).stdout


def test_any_user_may_use_the_state(machine: Machine) -> None:
    state = machine.folder / "lib" / "state"
    assert state.stat().st_mode & 0o777 == 0o666
    assert state.parent.stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize("args", [["xid", "9", "31"], ["xid", "0", "zero"], ["nonsense"], []])
def test_simgpu_refuses_wrong_use(machine: Machine, args: list[str]) -> None:
    assert machine.run("bin/simgpu", *args, status=2).stderr


def test_modprobe_takes_the_forms_of_the_real_tool(bare_machine: Machine) -> None:
    (bare_machine.folder / "dev").mkdir()
    bare_machine.run("bin/nvidia-modprobe", "-c", "0", "-c=1", "-u", "-m")
    made = sorted(path.name for path in (bare_machine.folder / "dev").iterdir())
    assert made == [
        "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidiactl",
    ]  # fmt: skip
    bare_machine.run("bin/nvidia-modprobe", "-c", "many", status=1)
