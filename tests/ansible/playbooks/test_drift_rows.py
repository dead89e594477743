"""What a row of drift.yml's table says of a task."""

import json
import pathlib
import types
from typing import Any

from tests.ansible import plugins

CALLBACK = plugins.load("playbooks/callback_plugins/drift.py")


def rows(folder: pathlib.Path, answer: dict[str, Any]) -> list[str]:
    """Return what is written of one task that answers so."""
    callback = CALLBACK.CallbackModule()
    callback._file = folder / "found.json"
    role = types.SimpleNamespace(get_name=lambda: "cluster_objects")
    callback.v2_runner_on_ok(
        types.SimpleNamespace(
            _result=answer,
            _task=types.SimpleNamespace(args={}, action="k8s", _role=role),
            task_name="Lay objects",
            _host=types.SimpleNamespace(get_name=lambda: "cp1"),
        )
    )
    file = folder / "found.json"
    return [row["differs"] for row in json.loads(file.read_text())] if file.exists() else []


def applied(kind: str, name: str, *, changed: bool) -> dict[str, Any]:
    """Return what kubernetes.core.k8s answers of one object (module_utils/k8s/runner.py)."""
    return {"changed": changed, "result": {"kind": kind, "metadata": {"name": name}}}


def test_each_object_of_one_call_has_its_row(tmp_path: pathlib.Path) -> None:
    objects = [
        applied("ClusterRole", "gpustack-extender", changed=False),
        applied("ClusterRoleBinding", "gpustack-extender", changed=True),
        applied("ValidatingAdmissionPolicy", "gpustack-nodes", changed=True),
    ]
    assert rows(tmp_path, {"changed": True, "result": {"results": objects}}) == [
        "Lay objects: ClusterRoleBinding gpustack-extender",
        "Lay objects: ValidatingAdmissionPolicy gpustack-nodes",
    ]


def test_the_only_object_of_a_call_is_named(tmp_path: pathlib.Path) -> None:
    assert rows(tmp_path, applied("Node", "gpu1", changed=True)) == ["Lay objects: Node gpu1"]


def test_a_result_of_another_kind_is_no_object(tmp_path: pathlib.Path) -> None:
    assert rows(tmp_path, {"changed": True, "result": "a word"}) == ["Lay objects"]


def test_what_stays_as_it_is_has_no_row(tmp_path: pathlib.Path) -> None:
    assert rows(tmp_path, applied("Node", "gpu1", changed=False)) == []
