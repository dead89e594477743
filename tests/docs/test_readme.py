"""The documents show the command's output, as run from the repository's root."""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass

import pytest

from gpustack.cli.main import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(\$ (?:gpustack|cat|grep) .*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One command of a document, and its output in the document."""

    document: str
    command: str
    shown: str


def examples() -> list[Example]:
    """Return every command of every console block that begins with one of ours, cat or grep."""
    found = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        document = path.relative_to(ROOT).as_posix()
        for block in BLOCK.findall(path.read_text("utf-8")):
            _, *parts = COMMAND.split(block)
            for command, shown in zip(parts[::2], parts[1::2], strict=True):
                found.append(Example(document=document, command=command, shown=shown))
    return found


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> dict[str, str]:
    """Return an environment in which `gpustack` is this tree's, as an installed one would be."""
    command = tmp_path / "gpustack"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpustack.cli.main "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}


def test_the_readme_shows_the_command_at_work() -> None:
    commands = [each.command for each in examples() if each.document == "README.md"]
    for name in ("topo --from-text", "what-if"):
        assert any(command.startswith(f"gpustack {name}") for command in commands), name


def test_the_readme_says_how_the_command_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    text = (ROOT / "README.md").read_text("utf-8")
    before, _, after = text.partition("$ gpustack")
    install = re.search(r"`pip install '\.\[([a-z,]+)\]'`", before)
    assert after
    assert install, "the first example needs a command that isn't installed yet"
    assert set(install[1].split(",")) <= set(project["optional-dependencies"])


def one_command(command: str) -> list[str]:
    """Return the words of a single call of `gpustack`, without a shell's operators; else none."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    plain = words[0] == "gpustack" and not any(set(each) & set("();<>|&*?$`#") for each in words)
    return words if plain else []


@pytest.mark.parametrize(
    "example", examples(), ids=lambda each: f"{each.document}: {each.command[:60]}"
)
def test_an_example_prints_what_the_document_shows(
    example: Example,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process where it can be: most of an example's time is the start of Python."""
    if words := one_command(example.command):
        monkeypatch.chdir(ROOT)
        monkeypatch.setenv("COLUMNS", environment["COLUMNS"])
        status = main(words[1:])
        said = capsys.readouterr()
        assert said.out == example.shown
        assert (status, said.err) == (0, "")
        return
    run = subprocess.run(
        ["bash", "-uc", example.command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == example.shown
    assert (run.returncode, run.stderr) == (0, "")


def test_a_block_is_its_commands_and_what_each_prints() -> None:
    text = (
        "```console\n$ gpustack a \\\n    b\none\n\ntwo\n$ gpustack c\n```\n```console\n$ ls\n```\n"
    )
    [block] = BLOCK.findall(text)
    assert COMMAND.split(block) == ["", "gpustack a \\\n    b", "one\n\ntwo\n", "gpustack c", ""]
