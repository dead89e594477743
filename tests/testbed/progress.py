"""Run programs so that a waiting user sees their progress, and finds the log of a failure."""

import collections.abc
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import time

from tests.testbed import paths

# enough to show the cause of a failure without scrolling its beginning off the screen
TAIL_LINES = 25


class TestbedError(Exception):
    """A step of the testbed failed; the text names the step and the log."""


@contextlib.contextmanager
def step(what: str) -> collections.abc.Iterator[None]:
    """Print the step and, at its end, how many seconds it took."""
    print(f"--> {what}", flush=True)
    started = time.monotonic()
    yield
    print(f"    {what}: {time.monotonic() - started:.1f} s", flush=True)


def call(
    command: collections.abc.Sequence[str | pathlib.Path],
    log: str,
    *,
    environment: collections.abc.Mapping[str, str] | None = None,
    directory: pathlib.Path | None = None,
    stdin: str | None = None,
) -> None:
    """Run a program with its output in ``<cache>/logs/<log>.log``.

    Args:
        command: The program and its arguments.
        log: The log's name, without folder and ending; the file is written anew.
        environment: Variables on top of this process's own.
        directory: Where to run it.
        stdin: Its input, empty when left out.

    Raises:
        TestbedError: It failed; the text holds the end of its output and the log's path.
    """
    _check_installed(command)
    file = paths.cache("logs") / f"{log}.log"
    with file.open("w") as sink:
        done = subprocess.run(
            [str(word) for word in command],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=directory,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            text=True,
            check=False,
        )
    if done.returncode:
        tail = "\n".join(file.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        raise TestbedError(
            f"{' '.join(str(word) for word in command)[:300]}\n"
            f"failed (status {done.returncode}); log: {file}\n{tail}"
        )


def output(command: collections.abc.Sequence[str | pathlib.Path]) -> str:
    """Run a short program and return its output.

    Raises:
        TestbedError: It failed; the text holds its standard error.
    """
    _check_installed(command)
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        words = " ".join(str(word) for word in command)
        raise TestbedError(f"{words}\nfailed (status {done.returncode}): {done.stderr.strip()}")
    return done.stdout


def _check_installed(command: collections.abc.Sequence[str | pathlib.Path]) -> None:
    if shutil.which(str(command[0])) is None:
        raise TestbedError(f"{command[0]} is not installed: python -m tests.testbed prepare")


@contextlib.contextmanager
def exclusive(name: str) -> collections.abc.Iterator[None]:
    """Hold the cache's lock of this name: a second process waits instead of building as well."""
    with (paths.cache("locks") / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"    waiting for another process that works on {name}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
