"""Tables on a real terminal keep to its width; `kubectl gpustack` is the same command."""

import pathlib
import sys

import pytest

from gpustack.cli.main import main
from tests.cli import terminal
from tests.cli.snapshots import node, pod, write

WIDTH = 100


def shown(path: str, width: int, *words: str) -> list[str]:
    """Return the lines that a terminal of this width gets."""
    status, text = terminal.run(*words, "--snapshot", path, lines=24, columns=width)
    assert status == 0
    return text.splitlines()


@pytest.mark.parametrize("words", [["get", "pods"], ["usage"]])
def test_no_line_is_wider_than_the_terminal(tmp_path: pathlib.Path, words: list[str]) -> None:
    item = pod("a-pod-with-quite-a-long-name", 50, 8)
    condition = {"type": "PodScheduled", "status": "False", "message": "no room " * 40}
    item["status"] = {"conditions": [condition]}
    path = write(tmp_path, node(), item, pod("x" * 200, 60, 8, held=True))
    lines = shown(path, WIDTH, *words)
    assert max(map(len, lines)) == WIDTH
    assert any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)


def test_a_pipe_gets_every_cell_whole(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), pod("x" * 200, 60, 8, held=True))
    assert main(["get", "pods", "--snapshot", path]) == 0
    assert "x" * 200 in capsys.readouterr().out


def test_kubectls_plug_in_names_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-gpustack"])
    with pytest.raises(SystemExit, match="2"):
        main(["get"])
    assert capsys.readouterr().err.startswith("kubectl gpustack get: ")
