"""NVML through pynvml, unmodified."""

import time

import pytest

from tests.simgpu_tests.conftest import Start
from tests.simgpu_tests.machine import Machine, first_line
from tests.simgpu_tests.pynvml_process import Nvml, NvmlFailure, newest_us, now_us, percents

XID_EVENT = 8  # nvmlEventTypeXidCriticalError
UNINITIALIZED, NOT_FOUND, NOT_LOADED, TIMEOUT, LOST = 1, 6, 9, 10, 15

HGX = {
    "driver": "535.261.03",
    "cuda": "12.2",
    "cards": [
        {"minor": 3, "uuid": "GPU-11111111-2222-3333-4444-555555555555", "model": "Tesla T4",
         "memory": 16 << 30, "sms": 40, "numa": 1, "bus": "0000:b0:00.0", "capability": "7.5"},
        {"minor": 0, "numa": 0, "bus": "0000:10:00.0"},
        {"minor": 1, "numa": 0, "bus": "0000:20:00.0"},
    ],
    "links": [["X", "SYS", "PHB"], ["SYS", "X", "NV4"], ["PHB", "NV4", "X"]],
}  # fmt: skip


@pytest.fixture
def session(nvml: Nvml) -> Nvml:
    nvml.ask("nvmlInit")
    return nvml


@pytest.fixture
def described(bare_machine: Machine) -> Machine:
    bare_machine.describe(HGX)
    bare_machine.start(0, 1, 3)
    return bare_machine


def code_of(nvml: Nvml, *call: object) -> int:
    with pytest.raises(NvmlFailure) as failure:
        nvml.ask(*call)  # type: ignore[arg-type]
    return failure.value.code


def test_indexes_follow_the_bus_and_minors_stay(described: Machine) -> None:
    with Nvml(described) as nvml:
        nvml.ask("nvmlInit")
        minors = [nvml.ask("nvmlDeviceGetMinorNumber", {"card": i}) for i in range(3)]
        assert minors == [0, 1, 3]
        assert nvml.ask("nvmlDeviceGetName", {"card": 2}) == "Tesla T4"
        assert nvml.ask("nvmlDeviceGetUUID", {"card": 2}) == HGX["cards"][0]["uuid"]  # type: ignore[index]
        assert nvml.ask("nvmlDeviceGetPciInfo", {"card": 2})["busId"] == "00000000:B0:00.0"
        assert nvml.ask("nvmlDeviceGetCudaComputeCapability", {"card": 2}) == [7, 5]
        assert nvml.ask("nvmlDeviceGetNumGpuCores", {"card": 2}) == 40 * 64


def test_only_granted_cards_are_counted(described: Machine) -> None:
    (described.folder / "dev" / "nvidia1").unlink()
    with Nvml(described) as nvml:
        nvml.ask("nvmlInit")
        assert nvml.ask("nvmlDeviceGetCount") == 2
        assert nvml.ask("nvmlDeviceGetMinorNumber", {"card": 1}) == 3
        assert nvml.ask("nvmlDeviceGetIndex", {"card": 1}) == 1


def test_topology_and_links_come_from_the_matrix(described: Machine) -> None:
    with Nvml(described) as nvml:
        nvml.ask("nvmlInit")

        def level(a: int, b: int) -> int:
            ask = nvml.ask("nvmlDeviceGetTopologyCommonAncestor", {"card": a}, {"card": b})
            return int(ask)

        assert [level(0, 2), level(1, 2), level(0, 1), level(0, 0)] == [50, 30, 40, 0]
        states = [nvml.ask("nvmlDeviceGetNvLinkState", {"card": 0}, link) for link in range(4)]
        assert states == [1, 1, 1, 1]
        assert code_of(nvml, "nvmlDeviceGetNvLinkState", {"card": 0}, 4) == 3
        remote = nvml.ask("nvmlDeviceGetNvLinkRemotePciInfo", {"card": 0}, 3)
        assert remote["busId"] == "00000000:20:00.0"
        assert nvml.ask("nvmlDeviceGetMemoryAffinity", {"card": 2}, 1, 0) == [2]


def test_more_links_than_a_card_has_go_to_a_switch(bare_machine: Machine) -> None:
    bare_machine.describe({"cards": [{"minor": minor} for minor in range(8)]})
    bare_machine.start(*range(8))
    with Nvml(bare_machine) as nvml:
        nvml.ask("nvmlInit")
        types = {nvml.ask("nvmlDeviceGetNvLinkRemoteDeviceType", {"card": 0}, i) for i in range(12)}
        assert types == {2}
        assert code_of(nvml, "nvmlDeviceGetNvLinkState", {"card": 0}, 12) == 3


def test_versions_are_the_described_ones(session: Nvml) -> None:
    assert session.ask("nvmlSystemGetDriverVersion") == "535.261.03"
    assert session.ask("nvmlSystemGetNVMLVersion") == "12.535.261.03"
    assert session.ask("nvmlSystemGetCudaDriverVersion_v2") == 12020


def test_memory_agrees_in_both_forms(client: Start, session: Nvml) -> None:
    client("0", "alloc", str(1 << 30))
    plain = session.ask("nvmlDeviceGetMemoryInfo", {"card": 0})
    second = session.ask("nvmlDeviceGetMemoryInfo", {"card": 0}, 0x2000028)
    assert plain["used"] == second["used"] == (1 << 30) + (64 << 20)
    assert second["used"] + second["free"] + second["reserved"] == second["total"] == 85899345920


def test_a_session_is_counted(nvml: Nvml) -> None:
    assert code_of(nvml, "nvmlDeviceGetCount") == UNINITIALIZED
    nvml.ask("nvmlInit")
    nvml.ask("nvmlInit")
    nvml.ask("nvmlShutdown")
    assert nvml.ask("nvmlDeviceGetCount") == 2
    nvml.ask("nvmlShutdown")
    assert code_of(nvml, "nvmlShutdown") == UNINITIALIZED


def test_nvml_is_refused_without_a_driver(bare_machine: Machine) -> None:
    with Nvml(bare_machine) as nvml:
        assert code_of(nvml, "nvmlInit") == NOT_LOADED


def test_a_reader_keeps_a_client_alive_when_it_ends_its_session(
    client: Start, session: Nvml
) -> None:
    """Closing any descriptor of the state would drop the process's own locks on it."""
    client("0", "alloc", "1")
    session.ask("nvmlShutdown")
    session.ask("nvmlInit")
    assert len(session.ask("nvmlDeviceGetComputeRunningProcesses", {"card": 0})) == 1


def test_idle_cards_have_no_processes_or_samples(session: Nvml) -> None:
    assert session.ask("nvmlDeviceGetComputeRunningProcesses", {"card": 0}) == []
    assert session.ask("nvmlDeviceGetGraphicsRunningProcesses", {"card": 0}) == []
    assert session.ask("nvmlDeviceGetUtilizationRates", {"card": 0})["gpu"] == 0
    assert code_of(session, "nvmlDeviceGetProcessUtilization", {"card": 0}, 0) == NOT_FOUND


def test_utilisation_is_the_share_of_busy_time(machine: Machine, session: Nvml) -> None:
    both = [machine.open("tests/client", "0", "queue", "3600000") for _ in range(2)]
    for process in both:
        first_line(process)
    begin_us = now_us()
    newest_us(session, begin_us + 1_250_000)
    assert session.ask("nvmlDeviceGetUtilizationRates", {"card": 0})["gpu"] == 100
    shares = percents(session, begin_us + 250_000)
    assert shares == pytest.approx({process.pid: 50 for process in both}, abs=1)
    for process in both:
        process.kill()
        process.communicate()
    later_us = now_us() + 1_000_000
    assert code_of(session, "nvmlDeviceGetProcessUtilization", {"card": 0}, later_us) == NOT_FOUND


def test_energy_is_the_idle_cards_and_the_kernels(machine: Machine, session: Nvml) -> None:
    def joules(card: int) -> float:
        return float(session.ask("nvmlDeviceGetTotalEnergyConsumption", {"card": card})) / 1000

    first = time.monotonic()
    before, neighbour, began = joules(0), joules(1), time.monotonic()
    with machine.open("tests/client", "0", "spin", "5000", "0.5") as process:
        ran_seconds = 0.005 * int(first_line(process))
    between = time.monotonic() - began
    drawn, idle = joules(0) - before, joules(1) - neighbour
    longest = time.monotonic() - first
    unit = 0.001  # the counter's, to which each of its values is rounded
    assert 62 * between - unit <= idle <= 62 * longest + unit
    assert 62 * between - unit <= drawn - 338 * ran_seconds <= 62 * longest + unit
    assert session.ask("nvmlDeviceGetPowerUsage", {"card": 1}) == 62_000
    assert 62_000 < session.ask("nvmlDeviceGetPowerUsage", {"card": 0}) <= 400_000


def test_an_xid_reaches_the_sets_of_its_card(machine: Machine, session: Nvml) -> None:
    session.ask("nvmlEventSetCreate")
    session.ask("nvmlDeviceRegisterEvents", {"card": 1}, XID_EVENT)
    assert code_of(session, "nvmlEventSetWait_v2", 1) == TIMEOUT
    session.send("nvmlEventSetWait_v2", 10_000)
    machine.run("bin/simgpu", "xid", "0", "48")
    machine.run("bin/simgpu", "xid", "1", "31")
    event = session.receive()
    assert (event["eventType"], event["eventData"]) == (XID_EVENT, 31)


def test_a_lost_card_says_so_and_comes_back(machine: Machine, session: Nvml) -> None:
    machine.run("bin/simgpu", "lose", "1")
    assert code_of(session, "nvmlDeviceGetUUID", {"card": 1}) == LOST
    session.ask("nvmlDeviceGetUUID", {"card": 0})
    machine.run("bin/simgpu", "restore", "1")
    session.ask("nvmlDeviceGetUUID", {"card": 1})
