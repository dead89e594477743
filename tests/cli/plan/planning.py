"""Helpers for tests of `gpustack what-if`: a second node, files, and a checked answer."""

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.wire import schemas
from tests.cli.snapshots import NODE, node, pod, write

DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "exporter", "controller": True}
OTHER = replace(
    NODE, name="gpu2", cards=tuple(replace(card, uuid=f"{card.uuid}b") for card in NODE.cards)
)


def two_nodes(folder: pathlib.Path) -> str:
    """Write a snapshot of two nodes, with a pod on gpu1."""
    return write(folder, node(), node(OTHER), pod("holder", 60, 8, held=True))


def written(folder: pathlib.Path, value: object) -> str:
    path = folder / "pod.json"
    path.write_text(json.dumps(value))
    return str(path)


def answer(
    capsys: pytest.CaptureFixture[str], *arguments: str, schema: str = "what-if"
) -> tuple[int, dict[str, Any]]:
    status = main(["what-if", *arguments, "-o", "json"])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load(schema), value) == []
    return status, value
