"""What the hook costs, and how well its shares of GPU time hold."""

import os
import pathlib
import platform
import subprocess
import sys
import tempfile

from tests.benchmarks import shares

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "hook" / "out" / "test"
SOURCE = pathlib.Path(__file__).with_name("exec_cost.c")
ROUNDS = 5000
PROCESSES = (1, 2, 4, 8)
THREADS = (1, 4, 16, 64)
MILLISECONDS = 500


# Bounds of what the hook may cost: a launch on a card that isn't limited and on one that is, a
# charge and its refund, and a program without CUDA, beyond an empty library.
MOST_UNLIMITED_NS, MOST_LIMITED_NS = 50, 150
MOST_CHARGE_NS = 3000
MOST_EXEC_MICROSECONDS, MOST_EXEC_KIB = 15, 64


def build() -> None:
    """Build the measuring programs."""
    command = ["make", "-C", str(ROOT / "hook"), f"PYTHON={sys.executable}", "benches"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def gate_ns() -> tuple[float, float]:
    """Return what the gate adds to a launch without a limit, and with one, ns."""
    unlimited, limited = _built("bench_launch").split()
    return float(unlimited), float(limited)


def charge(processes: int, threads: int) -> tuple[str, str, str]:
    """Return median and 99th percentile of a charge and its refund, ns, and pairs a microsecond."""
    arguments = (str(processes), str(threads), str(MILLISECONDS))
    median, high, pairs = _built("bench_ledger", *arguments).split()
    return median, high, pairs


def section() -> str:
    """Measure and return the page's part."""
    build()
    parts = (
        _program_without_cuda(),
        _gate(),
        _contention(),
        _give_back(),
        shares.section(BUILD / "sim_share", ROOT / "docs"),
    )
    return "\n".join(parts)


def _gate() -> str:
    unlimited, limited = gate_ns()
    return "\n".join(
        [
            "## What the gate adds to a launch, without waits",
            "",
            "| card not limited, ns | limited, ns |",
            "|---|---|",
            f"| {unlimited} | {limited} |",
            "",
            "The best of 40 rounds of 20 000 launches. No card: the driver is a stand-in that does"
            f" nothing. Goals: {MOST_UNLIMITED_NS}, {MOST_LIMITED_NS}.",
            "",
        ]
    )


def _contention() -> str:
    rows = []
    for processes in PROCESSES:
        for threads in THREADS:
            median, high, pairs = charge(processes, threads)
            rows.append(f"| {processes} | {threads} | {median} | {high} | {pairs} |")
    return "\n".join(
        [
            "## A charge and its refund under contention",
            "",
            "| processes | threads in each | ns: median | p99 | pairs in a microsecond, of all |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"Over {MILLISECONDS} ms each on {os.cpu_count()} cores. No card and no driver: the"
            " process's lock, a look at limits and activity, the ledger. Beyond one thread a core,"
            " the 99th percentile is the scheduler's: others' turns on the core are in it.",
            "",
        ]
    )


def _give_back() -> str:
    given, given_worst, dead, dead_worst = _built("bench_give_back").split()
    return "\n".join(
        [
            "## From SIGKILL of the memory's holder until another process gets the memory, µs",
            "",
            "| | median | worst of 200 |",
            "|---|---|---|",
            f"| until the allocation that needs it succeeds | {given} | {given_worst} |",
            f"| until the process is gone, for its parent | {dead} | {dead_worst} |",
            "",
            "The process that needs it asks again and again, on the same machine. On a simulated"
            " card: a real driver takes time of its own to clean up.",
            "",
        ]
    )


def _built(program: str, *arguments: str) -> str:
    """Run one of the hook's measuring programs with the hook preloaded; return what it prints."""
    environment = {
        "LD_PRELOAD": str(BUILD / "libvcuda.so"),
        "LD_LIBRARY_PATH": str(BUILD / "driver"),
        "TEST_BUILD": str(BUILD),
        "PATH": os.defpath,
    }
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [BUILD / program, *arguments],
            env=environment, cwd=folder, check=True, capture_output=True, text=True,
        )  # fmt: skip
    return answer.stdout


def program_without_cuda(rounds: int = ROUNDS) -> dict[str, list[str]]:
    """Return what a program costs by what is preloaded.

    Median and 99th percentile from spawn to end, µs; how much more than with the empty library, µs;
    private dirty memory, KiB.
    """
    hook = ROOT / "hook" / "out" / platform.machine() / "libvcuda.so"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tool, program = folder / "exec_cost", folder / "nothing"
        empty = folder / "libempty.so"
        _compile("", "-shared", "-fPIC", "-o", empty)
        _compile("int main(void) { return 0; }", "-O2", "-o", program)
        _compile(SOURCE.read_text(), "-O2", "-D_GNU_SOURCE", "-o", tool)
        answer = subprocess.run(
            [tool, str(rounds), program, empty, "-", hook],
            check=True,
            capture_output=True,
            text=True,
        )
    names = ("an empty library", "none", "the hook")
    return dict(zip(names, map(str.split, answer.stdout.splitlines()), strict=True))


def _program_without_cuda() -> str:
    rows = [f"| {' | '.join([name, *row])} |" for name, row in program_without_cuda().items()]
    return "\n".join(
        [
            "## A program without CUDA under a preloaded library",
            "",
            "| preloaded | spawn to end, µs: median | p99 | more than the empty one, µs"
            " | private dirty, KiB |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"{ROUNDS} rounds in turns on one core. No card takes part. The third figure is the"
            f" median difference within a round. Goals: {MOST_EXEC_MICROSECONDS} µs,"
            f" {MOST_EXEC_KIB} KiB.",
            "",
        ]
    )


def _compile(source: str, *arguments: str | pathlib.Path) -> None:
    command = ["gcc", "-Wall", "-Werror", "-xc", "-", *arguments]
    subprocess.run(command, input=source, check=True, text=True)
