"""The help texts of our programs, for the tables of docs/reference."""

import contextlib
import io
import os
from collections.abc import Callable
from typing import Final

import gpustack.cli.main

_COLUMNS: Final = "100"  # the width of help texts


def help_of(program: Callable[[list[str]], int], *words: str) -> str:
    """Return a program's help text."""
    out, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _COLUMNS
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            program([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return f"```text\n{out.getvalue()}```\n"


def commands() -> str:
    """Return the help of `gpustack` and of each of its commands."""
    names = [
        each.__name__.rpartition(".")[2].replace("_", "-") for each in gpustack.cli.main.COMMANDS
    ]
    texts = [help_of(gpustack.cli.main.main)]
    texts += [f"### gpustack {name}\n{help_of(gpustack.cli.main.main, name)}" for name in names]
    return "\n".join(texts)
