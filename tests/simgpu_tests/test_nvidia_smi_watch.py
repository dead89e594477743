"""The repeated outputs of the simulated nvidia-smi, and its topology matrix."""

import re
import subprocess
from collections.abc import Callable

import pytest

from tests.simgpu_tests.conftest import Start
from tests.simgpu_tests.machine import SOURCE, TIMEOUT_SECONDS, Machine

GIB = 1 << 30
CONTEXT_MIB = 64
SMI = "bin/nvidia-smi"


@pytest.fixture(scope="module", autouse=True)
def tool() -> None:
    """The tool is up to date."""
    subprocess.run(["make", "-s", "-C", str(SOURCE), f"out/{SMI}"], check=True)


def rows_until(
    process: "subprocess.Popen[str]", enough: Callable[[list[str]], bool]
) -> list[list[str]]:
    """Reads a running tool's lines, as words, until one is enough."""
    assert process.stdout is not None
    rows: list[list[str]] = []
    for line in process.stdout:
        rows.append(line.split())
        if enough(rows[-1]):
            return rows
    pytest.fail(f"the tool ended: {rows}")


@pytest.mark.parametrize("words", ["-l 1", "--loop=1", "-lms 20", "--loop-ms=20"])
def test_the_table_comes_again_and_again(machine: Machine, words: str) -> None:
    seen = 0

    def third_head(row: list[str]) -> bool:
        nonlocal seen
        seen += row[1:2] == ["NVIDIA-SMI"]
        return seen == 3

    with machine.open(SMI, *words.split()) as process:
        rows_until(process, third_head)
        assert process.poll() is None
        process.terminate()
    assert process.returncode < 0


def test_a_looped_query_has_one_heading(machine: Machine) -> None:
    lines = 0

    def seventh(_row: list[str]) -> bool:
        nonlocal lines
        lines += 1
        return lines == 7

    words = ("--query-gpu=index,pstate", "--format=csv", "-lms", "20")
    with machine.open(SMI, *words) as process:
        rows = rows_until(process, seventh)
        process.kill()
    assert rows == [["index,", "pstate"], *[["0,", "P0"], ["1,", "P0"]] * 3]


def test_a_loop_ends_when_a_card_is_lost(machine: Machine) -> None:
    with machine.open(SMI, "-L", "-lms", "20") as process:
        rows_until(process, lambda row: row[1] == "1:")
        machine.run("bin/simgpu", "lose", "0")
        assert process.stdout is not None
        assert "GPU0: GPU is lost" in process.stdout.read()
    assert process.returncode == 15


def test_pmon_shows_idle_cards_as_dashes(machine: Machine) -> None:
    head, units, *rows = machine.run(SMI, "pmon", "-s", "u", "-d", "1", "-c", "1").stdout.split(
        "\n"
    )
    assert head.split() == ["#", "gpu", "pid", "type", "sm", "mem", "enc", "dec", "command"]
    assert units.split() == ["#", "Idx", "#", "C/G", "%", "%", "%", "%", "name"]
    assert [row.split() for row in rows] == [["0", *"-------"], ["1", *"-------"], []]


def test_pmon_shows_busy_processes_and_their_memory(machine: Machine, client: Start) -> None:
    idle = client("0", "alloc", str(GIB))
    with machine.open("tests/client", "1", "spin", "2000", str(TIMEOUT_SECONDS)) as busy:
        with machine.open(SMI, "pmon", "-s", "um", "-d", "1") as pmon:
            rows = rows_until(
                pmon, lambda row: row[1] == str(busy.pid) and row[3].isdigit() and int(row[3]) > 50
            )
            pmon.kill()
        busy.kill()
    assert rows[0][8:] == ["fb", "ccpm", "command"]
    assert [*rows[-1][:3], *rows[-1][-1:]] == ["1", str(busy.pid), "C", "client"]
    held = str(1024 + CONTEXT_MIB)
    assert rows[-2] == ["0", str(idle.pid), "C", *"----", held, "-", "client"]


def test_pmon_can_show_memory_alone_of_one_card(machine: Machine, client: Start) -> None:
    process = client("1", "alloc", str(GIB))
    text = machine.run(SMI, "pmon", "-s", "m", "-c", "1", "-i", "1").stdout
    _, _, row = text.splitlines()
    assert row.split() == ["1", str(process.pid), "C", str(1024 + CONTEXT_MIB), "-", "client"]


def matrix(machine: Machine) -> list[list[str]]:
    """The rows of topo -m, without the head and the legend."""
    text = machine.run(SMI, "topo", "-m").stdout
    return [line.split("\t") for line in text.split("\n\n")[0].splitlines()[1:]]


def test_the_topology_is_that_of_the_description(bare_machine: Machine) -> None:
    links = [
        ["X", "NV4", "PIX", "SYS"],
        ["NV4", "X", "PXB", "NODE"],
        ["PIX", "PXB", "X", "PHB"],
        ["SYS", "NODE", "PHB", "X"],
    ]
    cards = [{"minor": minor, "numa": minor // 3} for minor in range(4)]
    bare_machine.describe({"cards": cards, "links": links})
    bare_machine.start(0, 1, 2, 3)
    rows = matrix(bare_machine)
    assert [row[0] for row in rows] == ["GPU0", "GPU1", "GPU2", "GPU3"]
    assert [[token.strip() for token in row[1:5]] for row in rows] == links
    assert all(re.fullmatch(r"\d+([-,]\d+)*", row[5]) for row in rows)
    assert [row[6] for row in rows] == ["0", "0", "0", "1"]


def test_links_through_a_switch_count_for_every_pair(bare_machine: Machine) -> None:
    bare_machine.describe({"cards": [{"minor": minor} for minor in range(3)]})
    bare_machine.start(0, 1, 2)
    assert matrix(bare_machine)[0][1:4] == [" X ", "NV12", "NV12"]


def test_the_affinity_needs_a_machine_with_numa(bare_machine: Machine) -> None:
    bare_machine.describe({"cards": [{"minor": 0, "numa": -1}]})
    bare_machine.start(0)
    (row,) = matrix(bare_machine)
    assert row[3] == "N/A"


def test_the_head_of_the_matrix_is_underlined_as_the_real_one(machine: Machine) -> None:
    head = machine.run(SMI, "topo", "-m").stdout.splitlines()[0]
    assert head == "\t\033[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m"
