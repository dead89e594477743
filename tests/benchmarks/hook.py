"""What the hook costs a process that never touches CUDA."""

import pathlib
import platform
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = pathlib.Path(__file__).with_name("exec_cost.c")
ROUNDS = 5000


def section() -> str:
    """Measure and return the page's part."""
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
