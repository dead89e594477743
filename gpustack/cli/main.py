"""The composition root of the ``gpustack`` command.

Each command is a module with ``add`` (its part of the command line) and ``run`` (its answer).
Exit status: 0 yes, 1 no (with a reason), 2 wrong use or unreadable input. Errors go to stderr.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

import gpustack
from gpustack.cli import completion, explain, replay, snapshot, topo, usage, what_if
from gpustack.model.errors import GpustackError

COMMANDS: Final = (topo, usage, explain, what_if, replay, snapshot, completion)


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    top = argparse.ArgumentParser(prog="gpustack", description="Who uses which GPU, and why not.")
    top.add_argument("--version", action="version", version=f"gpustack {gpustack.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands).set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one question; return the exit status."""
    chosen = parser().parse_args(arguments)
    try:
        status: int = chosen.run(chosen)
        sys.stdout.flush()
    except BrokenPipeError:
        # `gpustack usage | head -1`: nobody reads on, and the last flush at exit must not say so
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except GpustackError as error:
        print(f"gpustack: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
