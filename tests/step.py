"""Run one long step: show its output, say how long it took, name the log on failure.

Used by the Makefile before anything is installed, so it needs the standard library alone:
``python3 tests/step.py NAME -- COMMAND ...``. The exit status is the command's.
"""

import os
import pathlib
import subprocess
import sys
import time


def log_directory() -> pathlib.Path:
    """Return the folder of the steps' logs, inside the cache and outside the repository."""
    home_cache = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    cache = os.environ.get("GPUSTACK_CACHE") or str(pathlib.Path(home_cache) / "gpustack")
    directory = pathlib.Path(cache) / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def run(name: str, command: list[str]) -> int:
    """Run the command with its output on the screen and in a log; return its exit status."""
    log = log_directory() / f"{name}.log"
    print(f"==> {name}: {' '.join(command)}", flush=True)
    started = time.monotonic()
    with log.open("wb") as sink:
        child = subprocess.Popen(
            command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert child.stdout is not None  # PIPE was asked for
        while some := child.stdout.read(1 << 16):  # as it comes: a test's dot is no whole line
            sys.stdout.buffer.write(some)
            sys.stdout.buffer.flush()
            sink.write(some)
    status = child.wait()
    seconds = time.monotonic() - started
    if status:
        print(f"==> {name} FAILED (status {status}) after {seconds:.0f} s; log: {log}", flush=True)
    else:
        print(f"==> {name}: done in {seconds:.0f} s", flush=True)
    return status if status >= 0 else 128 - status


def main() -> int:
    """Read ``NAME -- COMMAND ...`` and run it."""
    arguments = sys.argv[1:]
    if len(arguments) < 3 or arguments[1] != "--":
        print("usage: step.py NAME -- COMMAND ...", file=sys.stderr)
        return 2
    return run(arguments[0], arguments[2:])


if __name__ == "__main__":
    sys.exit(main())
