"""Violations in ``gpustack get pods`` and ``explain``, as the nodes of a snapshot have them."""

import json
import pathlib
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.wire import schemas, violations
from gpustack.wire.violations import ShareViolation
from tests.cli.snapshots import KEYS, node, pod, write

SINCE = "2026-11-29T04:35:11Z"


def saying(text: str) -> dict[str, Any]:
    """Return the node, which says this of its containers."""
    item = node()
    item["metadata"]["annotations"][KEYS.gpu_violations] = text
    return item


def found(uid: str, reason: str = "ShareExceeded") -> ShareViolation:
    return ShareViolation(uid=uid, container="main", reason=reason, since=SINCE)


def listed(capsys: pytest.CaptureFixture[str], path: str) -> dict[str, Any]:
    """Return the violations that `get pods` has of each pod."""
    assert main(["get", "pods", "--snapshot", path, "-o", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("get"), value) == []
    return {each["pod"]: each["violations"] for each in value["pods"]}


def test_a_pods_violations_stand_in_list_and_explanation(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = violations.encode([found("holder"), found("holder", "UnhookedProcess")])
    path = write(tmp_path, saying(said), pod("holder", 60, 8, held=True))
    each = {"container": "main", "since": SINCE}
    assert listed(capsys, path) == {
        "holder": [{**each, "reason": "ShareExceeded"}, {**each, "reason": "UnhookedProcess"}]
    }
    assert main(["get", "pods", "--snapshot", path]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.endswith("ShareExceeded (main), UnhookedProcess (main)")
    assert main(["explain", "holder", "--snapshot", path]) == 0
    assert f"container main: ShareExceeded since {SINCE}" in capsys.readouterr().out


def test_a_node_is_heard_about_its_own_pods_alone(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting, elsewhere = pod("waiting", 50, 8), pod("elsewhere", 50, 8, held=True)
    elsewhere["spec"]["nodeName"] = "gpu2"
    said = violations.encode([found("waiting"), found("elsewhere"), found("")])
    nameless = pod("nameless", 50, 8, held=True)
    del nameless["metadata"]["uid"]
    other = {"kind": "Node", "metadata": {"name": "gpu2"}}
    path = write(tmp_path, saying(said.replace('"uid":""', '"uid":"x"')), other, waiting, nameless)
    assert listed(capsys, path) == {"waiting": [], "nameless": []}
    write(tmp_path, saying(said.replace('"uid":""', '"uid":"x"')), other, elsewhere)
    main(["get", "pods", "--snapshot", path, "-o", "json"])
    (shown,) = json.loads(capsys.readouterr().out)["pods"]
    assert shown["violations"] == []


def test_violations_that_cannot_be_read_are_named_and_hide_nothing(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, saying("\x1b[2J"), pod("holder", 60, 8, held=True))
    assert main(["get", "pods", "--snapshot", path, "--no-headers"]) == 0
    said = capsys.readouterr()
    assert said.out.split()[:3] == ["default", "holder", "Running"]
    (line,) = said.err.splitlines()
    assert "node gpu1" in line
    assert "the violations can't be read" in line
    assert "\x1b" not in line
