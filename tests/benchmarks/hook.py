"""What the hook costs a process that never touches CUDA."""

import pathlib
import platform
import subprocess
import tempfile

from tests.benchmarks.timing import Timing, measure

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMES = 500


def section() -> str:
    """Measure and return the page's part."""
    hook = ROOT / "hook" / "out" / platform.machine() / "libvcuda.so"
    with tempfile.TemporaryDirectory() as folder:
        empty = pathlib.Path(folder) / "libempty.so"
        source = "-xc"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-o", str(empty), source, "/dev/null"], check=True
        )
        without = execution({})
        nothing = execution({"LD_PRELOAD": str(empty)})
        ours = execution({"LD_PRELOAD": str(hook)})
    rows = [
        "## exec of a program without CUDA, ms: median (p99)",
        "",
        "| no preload | an empty library | the hook |",
        "|---|---|---|",
        f"| {without.text()} | {nothing.text()} | {ours.text()} |",
        "",
        f"{TIMES} runs each of `/bin/true`, one after another, from Python's subprocess.",
        "",
    ]
    return "\n".join(rows)


def execution(environment: dict[str, str]) -> Timing:
    """Time starting and ending one small program."""
    return measure(lambda: subprocess.run(["/bin/true"], env=environment, check=True), times=TIMES)
