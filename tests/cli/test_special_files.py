"""A FIFO, a device or an endless file in place of an input is refused at once, by name."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from gpustack.cli.main import main
from gpustack.wire.files import source
from tests.cli.snapshots import node, pod, write

# Each file that a command takes; the others are as they should be.
ARGUMENTS = {
    "snapshot": ["usage", "--snapshot", "{}"],
    "pod": ["what-if", "--snapshot", "snapshot.json", "--pod", "{}"],
    "trace": ["replay", "--snapshot", "snapshot.json", "--trace", "{}"],
    "text": ["topo", "--from-text", "{}"],
    "kubeconfig": ["usage", "--kubeconfig", "{}"],
}
ROOT = pathlib.Path(__file__).resolve().parents[2]
GPUSTACK = [sys.executable, "-m", "gpustack.cli.main"]


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    write(tmp_path, node())
    (tmp_path / "pod.json").write_text(json.dumps(pod("web", 50, 8)))
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("file", ["fifo", "/dev/zero"])
@pytest.mark.parametrize("which", ARGUMENTS)
def test_what_is_no_regular_file_is_refused_at_once(
    which: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([each.format(file) for each in ARGUMENTS[which]]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f"{file}: is no regular file; put one in its place")


@pytest.mark.parametrize("which", ["snapshot", "pod", "trace", "text"])
def test_an_endless_pipe_is_refused_by_its_length(
    which: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(source, "_MOST_BYTES", 1 << 16)
    with open("/dev/zero") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        assert main([each.format("-") for each in ARGUMENTS[which]]) == 2
    assert capsys.readouterr().err == "gpustack: standard input: is longer than 65536 bytes\n"


def test_the_pipes_of_a_shell_are_read(folder: pathlib.Path) -> None:
    files = f"--snapshot <(cat {folder}/snapshot.json) --pod <(cat {folder}/pod.json)"
    run = subprocess.run(
        ["bash", "-c", f'"$@" what-if {files} -o json', "bash", *GPUSTACK],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["unplaced"] == []
