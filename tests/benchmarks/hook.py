"""What the hook costs, and how well its shares of GPU time hold."""

import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "hook" / "out" / "test"
SOURCE = pathlib.Path(__file__).with_name("exec_cost.c")
ROUNDS = 5000


def section() -> str:
    """Measure and return the page's part."""
    command = ["make", "-C", str(ROOT / "hook"), f"PYTHON={sys.executable}", "benches"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return "\n".join((_program_without_cuda(), _gate(), _shares(), _rivals()))


def _gate() -> str:
    environment = {
        "LD_PRELOAD": str(BUILD / "libvcuda.so"),
        "LD_LIBRARY_PATH": str(BUILD / "driver"),
        "TEST_BUILD": str(BUILD),
        "PATH": os.defpath,
    }
    with tempfile.TemporaryDirectory() as folder:
        program = [BUILD / "bench_launch"]
        answer = subprocess.run(
            program, env=environment, cwd=folder, check=True, capture_output=True, text=True
        )
    unlimited, limited = answer.stdout.split()
    return "\n".join(
        [
            "## What the gate adds to a launch, without waits",
            "",
            "| card not limited, ns | limited, ns |",
            "|---|---|",
            f"| {unlimited} | {limited} |",
            "",
            "The best of 40 rounds of 20 000 launches; the driver does nothing. Goals: 50, 150.",
            "",
        ]
    )


_CELL = re.compile(r"(?P<name>.+?)\s+\d+\s+[\d.]+ % of\s+[\d.]+ %\s+(?P<error>\S+)")
_RIVALS = re.compile(
    r"compared, (?P<tenants>\d+) tenants?\s*, .*, (?P<length>\d+ \w+)\s+ours\s+(?P<ours>\S+ %)"
    r"\s+original\s+(?P<original>\S+ %)\s+plain bucket\s+(?P<plain>\S+ %)"
)


def _shares() -> str:
    found = list(filter(None, map(_CELL.match, _simulated("--print", "--full"))))
    rows = []
    for name in dict.fromkeys(each["name"] for each in found):
        errors = [float(each["error"]) for each in found if each["name"] == name]
        squares = sum(error * error for error in errors) / len(errors)
        worst = max(errors, key=abs)
        rows.append(f"| {name} | {len(errors)} | {worst:+.2f} | {math.sqrt(squares):.2f} |")
    return "\n".join(
        [
            "## Shares of GPU time in virtual time, by kernel length",
            "",
            "| work | tenants in its cells | worst error, points | root mean square |",
            "|---|---|---|---|",
            *rows,
            "",
            "Shares of 10 to 90 %, up to 8 tenants, time slices of 2 ms, over 10 s or 40 kernels."
            " Goal: 3 points.",
            "",
        ]
    )


def _rivals() -> str:
    rows = [
        f"| {each['tenants']} | {each['length']} | {each['ours']} | {each['original']}"
        f" | {each['plain']} |"
        for each in filter(None, map(_RIVALS.match, _simulated("--compare")))
    ]
    return "\n".join(
        [
            "## The same time line under other controllers: what a share of 30 % got",
            "",
            "| tenants | kernel | ours | the original's | a plain token bucket |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _simulated(*arguments: str) -> list[str]:
    program = [str(BUILD / "sim_share"), *arguments]
    answer = subprocess.run(program, check=True, capture_output=True, text=True)
    return answer.stdout.splitlines()


def _program_without_cuda() -> str:
    hook = ROOT / "hook" / "out" / platform.machine() / "libvcuda.so"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tool, program = folder / "exec_cost", folder / "nothing"
        empty = folder / "libempty.so"
        _compile("", "-shared", "-fPIC", "-o", empty)
        _compile("int main(void) { return 0; }", "-O2", "-o", program)
        _compile(SOURCE.read_text(), "-O2", "-D_GNU_SOURCE", "-o", tool)
        answer = subprocess.run(
            [tool, str(ROUNDS), program, empty, "-", hook],
            check=True,
            capture_output=True,
            text=True,
        )
    names = ("an empty library", "none", "the hook")
    lines = zip(names, map(str.split, answer.stdout.splitlines()), strict=True)
    rows = [
        f"| {name} | {median} | {high} | {more} | {dirty} |"
        for name, (median, high, more, dirty) in lines
    ]
    return "\n".join(
        [
            "## A program without CUDA under a preloaded library",
            "",
            "| preloaded | spawn to end, µs: median | p99 | more than the empty one, µs"
            " | private dirty, KiB |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"{ROUNDS} rounds in turns on one core; the third figure is the median difference"
            " within a round. Goals: 15 µs, 64 KiB.",
            "",
        ]
    )


def _compile(source: str, *arguments: str | pathlib.Path) -> None:
    command = ["gcc", "-Wall", "-Werror", "-xc", "-", *arguments]
    subprocess.run(command, input=source, check=True, text=True)
