"""A share of memory on a card: exact to the page, for every process and every runtime."""

import json
import subprocess

import pytest

from gpustack.adapters.nvml import Nvml
from tests.gpu import bundle
from tests.gpu.cards import MIB, CheckedCard, Outside
from tests.gpu.contexts import Sizes, client
from tests.gpu.host import Host
from tests.gpu.report import Report

pytestmark = pytest.mark.gpu
PAGE = 2 * MIB  # the driver's: what is larger than 1 MiB has pages of its own

CONTEXTS = "What a context takes, MiB"
SELFTEST = "What `gpustack-hook-selftest` tries in a share"
MEMORY = "Memory until it is refused, in a share"


def mib(size: float) -> str:
    return f"{size / MIB:.0f}"


def test_the_inventory_agrees_with_nvidia_smi(card: CheckedCard) -> None:
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected = {line.split(", ")[0]: int(line.split(", ")[1]) for line in listed.splitlines()}
    inventory = Nvml().inventory()
    assert {found.uuid: found.memory_bytes >> 20 for found in inventory.cards} == expected


def test_without_readable_limits_the_hook_is_closed(card: CheckedCard) -> None:
    hook = bundle.hook_folder(named_paths=True)
    done = subprocess.run(
        [str(hook / "gpustack-hook-selftest")],
        env={"LD_PRELOAD": str(hook / "libvcuda.so")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "limits" in done.stdout + done.stderr


def test_the_bytes_of_a_context_are_reported_as_an_agent_setting(
    sizes: Sizes, report: Report
) -> None:
    for row, figures in (
        ("first of a process, by the card's memory", sizes.first),
        ("the same, by NVML's count of the process", sizes.held),
        ("second of the same process", sizes.second),
    ):
        report.put(CONTEXTS, row, least=mib(min(figures)), most=mib(max(figures)))
    report.note(CONTEXTS, f"{len(sizes.first)} processes.")
    report.tell_agent("gpustack_agent_hook_context_bytes", sizes.recommended)


def test_the_selftest_says_that_the_limits_hold(host: Host, report: Report) -> None:
    container = host.container("selftest", cores=50)
    said = json.loads(container.run(container.hook / "gpustack-hook-selftest", "--json"))
    assert said["holds"], said["problems"]
    (seen,) = said["cards"]
    for attempt in seen["attempts"]:
        report.put(SELFTEST, attempt["what"], outcome=attempt["outcome"], why=attempt["why"])
    report.note(SELFTEST, f"{len(said['gated'])} functions of this driver are gated.")
    assert seen["total_bytes"] == host.share_bytes
    assert seen["free_bytes"] == host.share_bytes - host.context_bytes


def test_nvidia_smi_shows_the_share(host: Host) -> None:
    query = ["nvidia-smi", f"--id={host.card.card.uuid}", "--query-gpu=memory.total"]
    shown = host.container("smi", cores=50).run(*query, "--format=csv,noheader,nounits")
    assert int(shown) * MIB == host.share_bytes


@pytest.mark.parametrize("version", ["driver", *bundle.RUNTIMES])
def test_memory_is_refused_where_the_share_ends(
    host: Host, outside: Outside, report: Report, version: str
) -> None:
    library = version if version == "driver" else bundle.runtime(version)
    if version != "driver" and not bundle.runtime(version).exists():
        pytest.skip(f"not run: {bundle.runtime(version).name} isn't in build/gpu: make gpu-bundle")
    container = host.container("memory", cores=50)
    usable = host.share_bytes - host.context_bytes
    with client(container, library) as program:
        seen = program.ask("info")
        if isinstance(seen, str) and (host.card.simulated or "InsufficientDriver" in seen):
            pytest.skip(f"not run: with this driver, libcudart {version} stops at {seen}")
        assert seen == [usable, host.share_bytes]
        taken = program.ask("fill")
        held = outside.held_bytes(program.pid)
        report.put(
            MEMORY,
            "the driver's calls" if version == "driver" else f"libcudart {version}",
            share_less_a_context_in_MiB=mib(usable),
            taken_in_MiB=mib(taken),
            by_NVML_beyond_the_share_in_MiB="-" if held is None else mib(held - host.share_bytes),
        )
        assert taken == usable // PAGE * PAGE
        assert program.ask("info") == [usable - taken, host.share_bytes]
        assert program.ask("free") == 0
        assert program.ask("info") == [usable, host.share_bytes]
        assert program.ask("fill") == taken
    assert container.use().used_bytes == 0


def test_processes_share_one_limit_and_give_back_when_killed(host: Host, report: Report) -> None:
    count = 4
    container = host.container("processes", cores=50)
    programs = [client(container) for _ in range(count)]
    try:
        for program in programs:
            assert program.ask("info")[1] == host.share_bytes
        for program in programs:
            program.tell("fill")
        taken = [program.answer() for program in programs]
        usable = host.share_bytes - count * host.context_bytes
        report.put(
            MEMORY,
            f"{count} processes at once",
            share_less_a_context_in_MiB=mib(usable),
            taken_in_MiB=mib(sum(taken)),
        )
        assert sum(taken) == usable // PAGE * PAGE
        programs[0].process.kill()
        programs[0].process.wait()
        back = (usable - sum(taken) + taken[0] + host.context_bytes) // PAGE * PAGE
        assert programs[1].ask("fill") == back
    finally:
        for program in programs:
            program.__exit__(None, None, None)
    assert container.use().used_bytes == 0
