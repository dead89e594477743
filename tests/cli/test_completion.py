"""What the shell offers: the script is run by a real bash, and is a clean one."""

import shlex
import subprocess

import pytest

from gpustack.cli.main import COMMANDS, main


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", "bash"]) == 0
    return capsys.readouterr().out


def offered(script: str, *words: str) -> list[str]:
    typed = " ".join(map(shlex.quote, ("gpustack", *words)))
    asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _gpustack; echo ${{COMPREPLY[*]}}"
    run = subprocess.run(
        ["bash", "-uc", f"{script}\n{asked}"], check=True, capture_output=True, text=True
    )
    return run.stdout.split()


def test_every_command_is_offered(script: str) -> None:
    words = set(offered(script, ""))
    names = {command.__name__.rpartition(".")[2] for command in COMMANDS}
    assert {name.replace("_", "-") for name in names} <= words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("expl",), ["explain"]),
        (("explain", "--snap"), ["--snapshot"]),
        (("explain", "-o", ""), ["table", "json"]),
        (("usage", "--output", "j"), ["json"]),
        (("usage", "--snapshot", ""), []),
        (("usage", "--cont"), ["--context"]),
        (("snapshot", "--kube"), ["--kubeconfig"]),
        (("completion", "fi"), ["fish"]),
        (("completion", "z"), ["zsh"]),
        (("what-if", "--policy", ""), ["exact", "original", "spread", "fgd"]),
        (("what-if", "--pod", "f", "--cap"), ["--capacity"]),
        (("--ver",), ["--version"]),
    ],
)
def test_what_may_follow_is_offered(
    script: str, words: tuple[str, ...], expected: list[str]
) -> None:
    assert offered(script, *words) == expected


def test_zsh_runs_the_same_script(capsys: pytest.CaptureFixture[str], script: str) -> None:
    assert main(["completion", "zsh"]) == 0
    zsh = capsys.readouterr().out
    assert zsh.startswith("autoload -U +X bashcompinit")
    assert zsh.splitlines()[2:] == script.splitlines()[1:]


def test_fish_is_told_every_command_and_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 0
    # a quote within quotes is written \\' there, which shlex reads as an end
    lines = [
        shlex.split(line.replace("\\'", "")) for line in capsys.readouterr().out.splitlines()[1:]
    ]
    assert all(line[:4] == ["complete", "-c", "gpustack", "-n"] for line in lines)
    here = "__fish_seen_subcommand_from what-if"
    [policy] = [line for line in lines if line[4] == here and "policy" in line]
    assert policy[policy.index("-a") + 1].split() == ["exact", "original", "spread", "fgd"]
    commands = [line for line in lines if line[4].startswith("not ")]
    names = {command.__name__.rpartition(".")[2].replace("_", "-") for command in COMMANDS}
    assert {line[line.index("-a") + 1] for line in commands} == names
    snapshots = [line for line in lines if "snapshot" in line and "-l" in line]
    assert len(snapshots) >= 4
    assert all("-r" in line for line in snapshots)  # a value: files are offered


def test_the_script_has_no_finding_of_shellcheck(script: str) -> None:
    run = subprocess.run(
        ["shellcheck", "-s", "bash", "-"], input=script, capture_output=True, text=True, check=False
    )
    assert run.stdout == ""
