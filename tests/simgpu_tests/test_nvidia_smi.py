"""The simulated nvidia-smi, as people, scripts and the tenants' hook use it."""

import csv
import re
import subprocess
from pathlib import Path

import pytest

from tests.simgpu_tests.conftest import Start
from tests.simgpu_tests.machine import OUT, SOURCE, Machine

GIB = 1 << 30
CONTEXT_MIB = 64
SMI = "bin/nvidia-smi"
WIDTH = 89  # of the default table


@pytest.fixture(scope="module", autouse=True)
def tool() -> None:
    """The tool is up to date."""
    subprocess.run(["make", "-s", "-C", str(SOURCE), f"out/{SMI}"], check=True)


def query(machine: Machine, fields: str, form: str = "csv,noheader") -> list[list[str]]:
    text = machine.run(SMI, f"--query-gpu={fields}", f"--format={form}").stdout
    return list(csv.reader(text.splitlines(), skipinitialspace=True))


def test_the_table_has_the_real_layout(machine: Machine, client: Start) -> None:
    process = client("1", "alloc", str(3 * GIB))
    text = machine.run(SMI).stdout
    clock, *table = text.splitlines()
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4} *", clock)
    assert {len(line) for line in table} == {WIDTH}
    assert re.search(r"NVIDIA-SMI 535\S+ +Driver Version: 535\S+ +CUDA Version: 12\.2 ", text)
    assert "|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |" in text
    used_mib = 3 * 1024 + CONTEXT_MIB
    assert re.search(r"\| N/A   34C +P0 +62W / 400W \| +0MiB / 81920MiB \| +0% +Default \|", text)
    assert f" {used_mib}MiB / 81920MiB |" in text
    row = rf"\|    1   N/A  N/A +{process.pid}      C   (\.\.\.)?\S*/tests/client +{used_mib}MiB \|"
    assert re.search(row, text)


def test_the_table_says_that_no_process_runs(machine: Machine) -> None:
    assert "|  No running processes found  " in machine.run(SMI).stdout


def test_the_list_names_cards_by_uuid(machine: Machine) -> None:
    lines = machine.run(SMI, "-L").stdout.splitlines()
    uuids = [uuid for (uuid,) in query(machine, "uuid")]
    assert lines == [
        f"GPU {index}: NVIDIA A100-SXM4-80GB (UUID: {uuid})" for index, uuid in enumerate(uuids)
    ]


@pytest.mark.parametrize("field", ["index", "uuid", "pci.bus_id"])
def test_a_card_is_chosen_by_index_uuid_or_bus(machine: Machine, field: str) -> None:
    (_, (wanted,)) = query(machine, field)
    assert machine.run(SMI, "-L", "-i", wanted).stdout.startswith("GPU 1: ")
    assert machine.run(SMI, "-L", f"--id={wanted}").stdout.count("\n") == 1


def test_several_cards_are_chosen_by_a_list(machine: Machine) -> None:
    lines = machine.run(SMI, "-L", "-i", "1,0,1").stdout.splitlines()
    assert [line[:6] for line in lines] == ["GPU 1:", "GPU 0:"]


@pytest.mark.parametrize("unknown", ["7", "GPU-nothing", "0000:77:00.0", "00000000:77:00.0"])
def test_an_unknown_card_is_no_device(machine: Machine, unknown: str) -> None:
    assert "No devices were found" in machine.run(SMI, "-i", unknown, status=6).stdout


def test_a_query_has_units_unless_told(machine: Machine, client: Start) -> None:
    client("0", "alloc", str(GIB))
    fields = "index,memory.total,memory.used,memory.free,power.draw,pstate"
    used = 1024 + CONTEXT_MIB
    free = 81920 - used
    heading, first, second = query(machine, fields, "csv")
    assert heading[1:5] == [
        "memory.total [MiB]",
        "memory.used [MiB]",
        "memory.free [MiB]",
        "power.draw [W]",
    ]
    assert first == ["0", "81920 MiB", f"{used} MiB", f"{free} MiB", "62.00 W", "P0"]
    assert second[:3] == ["1", "81920 MiB", "0 MiB"]
    plain = query(machine, fields, "csv,noheader,nounits")
    assert plain[0] == ["0", "81920", str(used), str(free), "62.00", "P0"]


def test_other_names_of_a_field_have_the_same_heading(machine: Machine) -> None:
    heading, *_ = query(machine, "gpu_uuid, gpu_name,clocks.sm", "csv")
    assert heading == ["uuid", "name", "clocks.current.sm [MHz]"]


def test_every_field_of_the_help_can_be_asked(machine: Machine) -> None:
    names = [line.split()[0] for line in machine.run(SMI, "--help-query-gpu").stdout.splitlines()]
    assert "memory.used" in names
    values = query(machine, ",".join(names[1:]))
    assert {len(row) for row in values} == {len(names) - 1}
    assert all(value for row in values for value in row)


def test_a_field_that_a_card_lacks_is_shown_as_not_available(machine: Machine) -> None:
    assert query(machine, "fan.speed") == [["[N/A]"], ["[N/A]"]]


@pytest.mark.parametrize("name", ["x", "", ".minor"])
def test_an_unknown_field_is_named(machine: Machine, name: str) -> None:
    for kind in ("gpu", "compute-apps"):
        refused = machine.run(SMI, f"--query-{kind}=timestamp,{name},y", "--format=csv", status=2)
        assert f'Field "{name}" is not a valid field to query.' in refused.stdout


@pytest.mark.parametrize(
    "words",
    [
        "--frobnicate",
        "-L -q",
        "-L --format=csv",
        "-L -d MEMORY",
        "-q -d NOTHING",
        "-i",
        "-l 0",
        "--loop=soon",
        "--query-gpu=name",
        "--query-gpu=name --format=xml",
        "--query-gpu=name --format=noheader",
        "--query-gpu",
        "pmon -d 11",
        "pmon -s x",
        "pmon -c 0",
        "pmon -c",
        "topo",
        "topo -x",
    ],
)
def test_wrong_arguments_are_refused(machine: Machine, words: str) -> None:
    refused = machine.run(SMI, *words.split(), status=2)
    assert refused.stdout


def test_applications_are_listed_with_their_memory(machine: Machine, client: Start) -> None:
    first, second = client("0", "alloc", str(GIB)), client("1", "alloc", str(2 * GIB))
    fields = "pid,process_name,used_memory,gpu_uuid"
    text = machine.run(SMI, f"--query-compute-apps={fields}", "--format=csv").stdout
    heading, *rows = csv.reader(text.splitlines(), skipinitialspace=True)
    uuids = [uuid for (uuid,) in query(machine, "uuid")]
    name = str(OUT / "tests/client")
    assert heading == ["pid", "process_name", "used_gpu_memory [MiB]", "gpu_uuid"]
    assert rows == [
        [str(first.pid), name, f"{1024 + CONTEXT_MIB} MiB", uuids[0]],
        [str(second.pid), name, f"{2048 + CONTEXT_MIB} MiB", uuids[1]],
    ]


def test_an_empty_list_of_applications_prints_nothing(machine: Machine) -> None:
    assert machine.run(SMI, "--query-compute-apps=pid", "--format=csv,noheader").stdout == ""


def test_without_a_driver_the_status_is_nine(bare_machine: Machine) -> None:
    for words in ([], ["-L"], ["pmon", "-c", "1"], ["topo", "-m"], ["--version"]):
        said = bare_machine.run(SMI, *words, status=9).stdout
        assert "couldn't communicate with the NVIDIA driver" in said


def test_without_a_library_that_loads_the_status_is_twelve(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An empty file in front of the search path: the host may have a real library behind it.
    (tmp_path / "libnvidia-ml.so.1").touch()
    with monkeypatch.context() as patch:
        patch.setattr(Machine, "env", machine.env | {"LD_LIBRARY_PATH": str(tmp_path)})
        assert "libnvidia-ml" in machine.run(SMI, status=12).stdout


def test_the_tool_finds_a_device_only_with_its_device_node(machine: Machine) -> None:
    for node in ("nvidia0", "nvidia1"):
        (machine.folder / "dev" / node).unlink()
    assert "No devices were found" in machine.run(SMI, status=6).stdout


def test_a_lost_card_ends_the_tool_but_its_neighbour_answers(machine: Machine) -> None:
    machine.run("bin/simgpu", "lose", "1")
    for words in ([], ["-q"], ["pmon"], ["topo", "-m"]):
        assert "GPU1: GPU is lost" in machine.run(SMI, *words, status=15).stdout
    assert machine.run(SMI, "-L", "-i", "0").stdout.startswith("GPU 0: ")
    machine.run("bin/simgpu", "restore", "1")
    assert machine.run(SMI, "-L").stdout.count("\n") == 2


def test_the_log_has_the_real_keys(machine: Machine, client: Start) -> None:
    process = client("1", "alloc", str(GIB))
    text = machine.run(SMI, "-q").stdout
    (uuid, bus), _ = query(machine, "uuid,pci.bus_id")
    assert re.search(r"^Attached GPUs +: 2$", text, re.MULTILINE)
    first, second = text.split("\nGPU 0000")[1:]
    pairs = dict(re.findall(r"^ +(\S.*?) +: (.*)$", first, re.MULTILINE))
    assert (pairs["GPU UUID"], pairs["Bus Id"], pairs["Minor Number"]) == (uuid, bus, "0")
    assert (pairs["GPU Current Temp"], pairs["Fan Speed"], pairs["Processes"]) == (
        "34 C",
        "N/A",
        "None",
    )
    used = re.search(r"FB Memory Usage\n.*\n.*\n +Used +: (.*)\n", second)
    assert used is not None
    assert used[1] == f"{1024 + CONTEXT_MIB} MiB"
    assert re.search(rf"Process ID +: {process.pid}\n +Type +: C\n +Name +: /\S+client\n", second)


def test_the_log_can_be_cut_to_sections(machine: Machine) -> None:
    text = machine.run(SMI, "-q", "-i", "0", "-d", "MEMORY,UTILIZATION").stdout
    headings = re.findall(r"^    (\S.*)$", text, re.MULTILINE)
    assert headings == ["FB Memory Usage", "BAR1 Memory Usage", "Utilization"]


def test_help_and_version_are_short(machine: Machine) -> None:
    assert machine.run(SMI, "--help").stdout == machine.run(SMI, "-h").stdout
    version = machine.run(SMI, "--version").stdout
    assert re.search(r"^DRIVER version +: 535\.\S+\nCUDA Version +: 12\.2$", version, re.MULTILINE)
    assert "used_memory" in machine.run(SMI, "--help-query-compute-apps").stdout


def test_the_tool_links_to_libc_alone() -> None:
    dynamic = subprocess.check_output(["readelf", "-d", str(OUT / SMI)], text=True)
    assert re.findall(r"NEEDED.*\[(.*)\]", dynamic) == ["libc.so.6"]


# As a tenant's hook: it stands in dlsym, answers one call itself and hides another.
GATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
struct memory { unsigned version; unsigned long long total, reserved, free, used; };
static int share(void *device, struct memory *memory) {
    (void)device;
    memory->total = 8ULL << 30; memory->free = 5ULL << 30; memory->used = 3ULL << 30;
    return 0;
}
void *dlsym(void *handle, const char *name) {
    void *(*real)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (strcmp(name, "nvmlDeviceGetMemoryInfo_v2") == 0) return (void *)share;
    return strcmp(name, "nvmlDeviceGetPowerUsage") == 0 ? 0 : real(handle, name);
}
"""


def test_the_tool_sees_a_gate_in_dlsym(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, gate = tmp_path / "gate.c", tmp_path / "gate.so"
    source.write_text(GATE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", gate, source, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(gate))
    values = query(machine, "memory.total,memory.used,power.draw", "csv,noheader,nounits")
    assert values == [["8192", "3072", "[N/A]"]] * 2
    assert " 3072MiB / 8192MiB |" in machine.run(SMI).stdout
