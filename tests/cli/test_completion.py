"""A shell's completions: a real bash runs the scripts, which ask the command itself."""

import os
import pathlib
import subprocess
import sys
from dataclasses import replace

import pytest

from gpustack.cli.main import COMMANDS, main
from tests.cli import snapshots

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def installed(tmp_path: pathlib.Path) -> pathlib.Path:
    """Put a `gpustack` onto the path, as the wheel does."""
    program = tmp_path / "gpustack"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpustack.cli.main "$@"\n')
    program.chmod(0o755)
    return tmp_path


def offered(installed: pathlib.Path, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """Return what bash offers where the cursor stands at the end of `line`."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = (
        f"COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_TYPE=9; "
        "_python_argcomplete gpustack; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    path = f"{installed}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
    )
    return [word.rstrip() for word in run.stdout.split("\n") if word]


def values(installed: pathlib.Path, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """Return what is offered beside options, which may follow anywhere."""
    return [word for word in offered(installed, capsys, line) if not word.startswith("-")]


def test_every_command_is_offered(
    installed: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {command.__name__.rpartition(".")[2].replace("_", "-") for command in COMMANDS}
    assert names <= set(offered(installed, capsys, "gpustack "))


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpustack expl", ["explain"]),
        ("gpustack explain --snap", ["--snapshot"]),
        ("gpustack explain -o ", ["table", "json"]),
        ("gpustack what-if --policy ", ["exact", "original", "spread", "fgd"]),
        ("gpustack get no", ["nodes"]),
        ("gpustack help wh", ["what-if"]),
        ("gpustack get pods --state Wai", ["Waiting"]),
        ("gpustack usage --cont", ["--context"]),
        ("gpustack doctor --ho", ["--host"]),
        ("gpustack --ver", ["--version"]),
    ],
)
def test_words_that_may_follow_are_offered(
    installed: pathlib.Path, capsys: pytest.CaptureFixture[str], line: str, expected: list[str]
) -> None:
    assert offered(installed, capsys, line) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("explain d", ["default/web", "default/next"]),
        ("explain -n default ", ["web", "next"]),
        ("explain --namespace nowhere ", []),
        ("what-if --drain gp", ["gpu1", "gpu2"]),
        ("what-if --like gpu2", ["gpu2"]),
        ("get pods --node ", ["gpu1", "gpu2"]),
    ],
)
def test_pods_and_nodes_of_the_cluster_are_offered(
    installed: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    line: str,
    expected: list[str],
) -> None:
    other = snapshots.node(replace(snapshots.NODE, name="gpu2"))
    plain = snapshots.pod("plain", 0, 0)
    plain["spec"]["containers"][0]["resources"] = {}  # asks for no GPU
    pods = snapshots.pod("web", 50, 8, held=True), snapshots.pod("next", 50, 8), plain
    path = snapshots.write(tmp_path, snapshots.node(), other, *pods)
    command, _, rest = line.partition(" ")
    assert values(installed, capsys, f"gpustack {command} --snapshot {path} {rest}") == expected


@pytest.mark.long
def test_names_that_cannot_be_read_are_none(
    installed: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert values(installed, capsys, "gpustack explain --snapshot /nowhere ") == []


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "gpustack" in capsys.readouterr().out
