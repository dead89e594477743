"""The NVML adapter on the simulated driver's own libnvidia-ml."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from gpustack.adapters.nvml import links

OUT = pathlib.Path(__file__).parents[2] / "simgpu" / "out"

CARDS = [
    {"minor": 1, "uuid": "GPU-00000000-0000-0000-0000-000000000001", "numa": 1, "sms": 56},
    {
        "minor": 0,
        "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "numa": 0,
        "memory": 25769803776,
    },
    {"minor": 2, "uuid": "GPU-00000000-0000-0000-0000-000000000002", "numa": -1},
]
LINKS = [["X", "NV4", "SYS"], ["NV4", "X", "PXB"], ["SYS", "PXB", "X"]]


class Simulation:
    """One description, one state, one process that looks at it."""

    def __init__(self, root: pathlib.Path, description: dict[str, Any]) -> None:
        cards, devices = root / "cards.json", root / "dev"
        cards.write_text(json.dumps(description))
        devices.mkdir()
        for name in ("nvidiactl", *(f"nvidia{card['minor']}" for card in description["cards"])):
            (devices / name).touch()
        self.sysfs = root / "sysfs"
        self.environment = {
            **os.environ,
            "SIMGPU_STATE": str(root / "state"),
            "SIMGPU_DEV": str(devices),
            "SIMGPU_CARDS": str(cards),
            "LD_LIBRARY_PATH": str(OUT / "lib"),
        }
        self.tool("init")
        self.probe: subprocess.Popen[str] | None = None

    def tool(self, *arguments: str) -> None:
        subprocess.run([OUT / "bin" / "simgpu", *arguments], env=self.environment, check=True)

    def ask(self, question: str) -> Any:
        if self.probe is None:
            self.probe = subprocess.Popen(
                [sys.executable, "-m", "tests.adapters.nvml.nvml_probe", str(self.sysfs)],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=pathlib.Path(__file__).parents[3],
            )
        assert self.probe.stdin is not None
        assert self.probe.stdout is not None
        self.probe.stdin.write(question + "\n")
        self.probe.stdin.flush()
        return json.loads(self.probe.stdout.readline())

    def close(self) -> None:
        if self.probe is not None:
            self.probe.communicate(timeout=10)


@pytest.fixture
def simulation(tmp_path: pathlib.Path) -> Iterator[Simulation]:
    found = Simulation(tmp_path, {"driver": "535.261.03", "cards": CARDS, "links": LINKS})
    yield found
    found.close()


def test_the_inventory_is_what_was_described_ascending_by_minor(simulation: Simulation) -> None:
    found = simulation.ask("inventory")
    assert [card["minor"] for card in found["cards"]] == [0, 1, 2]
    assert [card["numa"] for card in found["cards"]] == [0, 1, None]
    assert [card["sms"] for card in found["cards"]] == [108, 56, 108]
    assert found["cards"][0]["memory_bytes"] == 25769803776
    assert found["cards"][0]["model"] == "NVIDIA A100-SXM4-80GB"
    assert found["cards"][1]["bus"] == "0000:07:00.0"
    assert found["links"] == [["X", "NV4", "PXB"], ["NV4", "X", "SYS"], ["PXB", "SYS", "X"]]
    # What PCIe says of the pair that NVLink joins; the others' links are their paths.
    assert found["paths"][0][1] == found["paths"][1][0] == "SYS"
    assert (found["paths"][0][2], found["paths"][1][2]) == ("PXB", "SYS")
    assert (found["driver"], found["cuda"]) == ("535.261.03", "12.2")


def test_a_pair_whose_path_the_driver_does_not_know_is_the_farthest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsupported(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetTopologyCommonAncestor", unsupported)
    assert links.paths([object(), object()]) == (("X", "SYS"), ("SYS", "X"))


def test_sysfs_knows_a_cards_numa_node_better_than_the_driver(simulation: Simulation) -> None:
    device = simulation.sysfs / "0000:07:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("0\n")
    assert simulation.ask("inventory")["cards"][1]["numa"] == 0


def test_a_lost_card_is_a_fault_until_it_is_back(simulation: Simulation) -> None:
    simulation.ask("inventory")
    assert simulation.ask("faults") == []
    simulation.tool("lose", "1")
    assert simulation.ask("faults") == [{"uuid": CARDS[0]["uuid"], "reason": "Lost"}]
    simulation.tool("restore", "1")
    assert simulation.ask("faults") == []


def test_a_card_that_is_lost_already_leaves_the_others_in_the_inventory(
    simulation: Simulation,
) -> None:
    simulation.tool("lose", "0")
    found = simulation.ask("inventory")
    assert [card["minor"] for card in found["cards"]] == [1, 2]
    assert found["links"] == [["X", "SYS"], ["SYS", "X"]]


def test_every_critical_xid_arrives_with_its_card(simulation: Simulation) -> None:
    simulation.ask("inventory")
    assert simulation.ask("event 1") is None
    simulation.tool("xid", "0", "13")
    assert simulation.ask("event 5000") == {"uuid": CARDS[1]["uuid"], "reason": "Xid13"}
    simulation.tool("xid", "0", "79")
    assert simulation.ask("event 5000") == {"uuid": CARDS[1]["uuid"], "reason": "Xid79"}


def test_the_xid_of_a_card_that_is_lost_already_blames_it(simulation: Simulation) -> None:
    simulation.ask("inventory")
    assert simulation.ask("event 1") is None
    simulation.tool("lose", "0")
    simulation.tool("xid", "0", "79")
    assert simulation.ask("event 5000") == {"uuid": CARDS[1]["uuid"], "reason": "Xid79"}


def test_memory_errors_are_faults_until_the_card_was_reset(simulation: Simulation) -> None:
    simulation.ask("inventory")
    simulation.tool("ecc", "0", "2")
    simulation.tool("remap", "0", "pending")
    simulation.tool("remap", "2", "failed")
    found = [(each["uuid"][-1], each["reason"]) for each in simulation.ask("faults")]
    assert found == [("0", "EccUncorrectable"), ("0", "RemapPending"), ("2", "RemapFailed")]
    simulation.tool("reset")
    assert simulation.ask("faults") == []


def test_a_call_that_does_not_return_shows_its_age(simulation: Simulation) -> None:
    simulation.ask("inventory")
    simulation.tool("nvml", "hang")
    assert simulation.ask("hung") is True
    simulation.tool("nvml", "well")
    assert simulation.ask("faults") == []


def test_a_library_of_another_version_is_opened_again_once_it_fits(
    simulation: Simulation,
) -> None:
    before = simulation.ask("inventory")
    simulation.tool("nvml", "mismatch")
    for _ in range(2):
        reasons = [each["reason"] for each in simulation.ask("faults")]
        assert reasons == ["DriverMismatch"] * 3
    told = simulation.ask("state")
    assert told["opened"] == 1
    assert "isn't of the loaded driver's version" in told["problem"]
    simulation.tool("nvml", "well")
    assert simulation.ask("faults") == []
    assert simulation.ask("state") == {"opened": 2, "problem": ""}
    assert simulation.ask("inventory") == before
    simulation.tool("xid", "0", "48")  # the new library's events come
    assert simulation.ask("event 1") is None
    simulation.tool("xid", "0", "48")
    assert simulation.ask("event 5000") == {"uuid": CARDS[1]["uuid"], "reason": "Xid48"}


def test_the_library_that_is_installed_later_is_loaded(simulation: Simulation) -> None:
    """The driver's package replaces the file; a library that is mapped stays as it was."""
    own = simulation.sysfs.parent / "lib"
    shutil.copytree(OUT / "lib", own, symlinks=True)
    simulation.environment["LD_LIBRARY_PATH"] = str(own)
    simulation.ask("inventory")
    simulation.tool("nvml", "mismatch")
    simulation.ask("faults")
    library = next(own.glob("libnvidia-ml.so.5*"))
    (own / "new").write_bytes(library.read_bytes())
    (own / "new").replace(library)
    simulation.tool("nvml", "well")
    assert simulation.ask("faults") == []
    assert simulation.probe is not None
    maps = pathlib.Path(f"/proc/{simulation.probe.pid}/maps").read_text()
    mapped = [line for line in maps.splitlines() if "libnvidia-ml" in line]
    assert mapped
    assert not any(line.endswith("(deleted)") for line in mapped)


def test_an_idle_card_has_no_processes(simulation: Simulation) -> None:
    simulation.ask("inventory")
    assert simulation.ask(f"processes {CARDS[0]['uuid']}") == []


@pytest.mark.parametrize("bus", ["00000000:07:00.0", b"00000000:07:00.0\x00"])
def test_a_bus_address_is_spelled_as_sysfs_spells_it(bus: str | bytes) -> None:
    assert links.short_bus(bus) == "0000:07:00.0"
