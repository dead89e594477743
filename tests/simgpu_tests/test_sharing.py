"""Several processes on one card."""

import subprocess

import pytest

from tests.simgpu_tests.conftest import Start
from tests.simgpu_tests.machine import Machine, first_line
from tests.simgpu_tests.pynvml_process import Nvml

GIB = 1 << 30
CONTEXT_BYTES = 64 << 20
NO_DEVICE = "cuInit(0) answered 100"


def used_bytes(nvml: Nvml, card: int = 0) -> int:
    return int(nvml.ask("nvmlDeviceGetMemoryInfo", {"card": card})["used"])


@pytest.fixture
def session(nvml: Nvml) -> Nvml:
    nvml.ask("nvmlInit")
    return nvml


def test_a_killed_process_gives_its_memory_back(client: Start, session: Nvml) -> None:
    first = client("0", "alloc", str(5 * GIB))
    client("0", "alloc", str(3 * GIB))
    assert used_bytes(session) == 8 * GIB + 2 * CONTEXT_BYTES
    first.kill()
    first.wait()
    assert used_bytes(session) == 3 * GIB + CONTEXT_BYTES


def test_memory_of_ended_processes_is_free_for_live_ones(client: Start, machine: Machine) -> None:
    first = client("0", "alloc", str(79 * GIB))
    machine.run("tests/client", "0", "alloc", str(2 * GIB), status=1)
    first.kill()
    first.wait()
    machine.run("tests/client", "0", "alloc", str(2 * GIB))


def test_cards_do_not_share_memory(client: Start, session: Nvml) -> None:
    client("1", "alloc", str(GIB))
    assert used_bytes(session, 0) == 0
    assert used_bytes(session, 1) == GIB + CONTEXT_BYTES


def test_queued_work_of_ended_processes_is_dropped(client: Start, machine: Machine) -> None:
    first = client("0", "queue", "3600000")
    first.kill()
    first.wait()
    # By the card's own time; a living neighbour would have a turn between each two of ours.
    measured_us = float(machine.run("tests/client", "0", "measure", "9000").stdout)
    assert measured_us == pytest.approx(9001, abs=1)


def test_processes_get_equal_shares(machine: Machine) -> None:
    """Short kernels against long ones: slices are by time, not by launches."""
    both = [machine.open("tests/client", "0", "spin", us, "1.2") for us in ("1000", "20000")]
    ran_us = [int(first_line(both[0])) * 1000, int(first_line(both[1])) * 20000]
    for process in both:
        process.communicate()
    assert sum(ran_us) <= 1.3e6  # one card has one second of time a second
    assert 0.2 < ran_us[0] / sum(ran_us) < 0.8


def test_a_card_is_seen_only_with_its_device_node(machine: Machine) -> None:
    (machine.folder / "dev" / "nvidia0").unlink()
    done = machine.run("tests/client", "1", "alloc", "1", status=1)
    assert "answered 101" in done.stderr  # one card is left: no ordinal 1
    machine.run("tests/client", "0", "alloc", "1")


def test_a_device_needs_the_control_node(machine: Machine) -> None:
    (machine.folder / "dev" / "nvidiactl").unlink()
    assert NO_DEVICE in machine.run("tests/client", "0", "alloc", "1", status=1).stderr


def test_a_device_needs_a_driver(bare_machine: Machine) -> None:
    assert NO_DEVICE in bare_machine.run("tests/client", "0", "alloc", "1", status=1).stderr


def test_visible_devices_choose_and_order_the_cards(
    machine: Machine, session: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = session.ask("nvmlDeviceGetUUID", {"card": 1})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{uuid},nothing,0")
    with machine.open("tests/client", "0", "alloc", str(GIB)) as process:
        assert first_line(process) == "ready"
        assert used_bytes(session, 1) == GIB + CONTEXT_BYTES
    assert "answered 101" in machine.run("tests/client", "1", "alloc", "1", status=1).stderr


def test_nvml_names_pids_as_its_reader_sees_them(client: Start, session: Nvml) -> None:
    """A process that is PID 1 of a namespace has another number outside."""
    prefix = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    outer = client("0", "alloc", "1", prefix=prefix)
    (found,) = session.ask("nvmlDeviceGetComputeRunningProcesses", {"card": 0})
    children = subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(outer.pid)], text=True)
    assert found["pid"] == int(children)
    assert found["usedGpuMemory"] == CONTEXT_BYTES + (2 << 20)
