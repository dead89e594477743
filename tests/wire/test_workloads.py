"""The pod of a file, in whatever object it stands."""

import json
from typing import Any

import pytest

from gpustack.wire.workloads import BadWorkload, parse_workload

SPEC: dict[str, Any] = {"containers": [{"name": "main"}]}
TEMPLATE: dict[str, Any] = {"metadata": {"annotations": {"a": "b"}}, "spec": SPEC}
REPLICAS: dict[str, Any] = {"pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"kind": "Pod", "spec": SPEC}, ""),
        ({"kind": "Deployment", "spec": {"template": TEMPLATE}}, "spec.template"),
        (
            {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}},
            "spec.jobTemplate.spec.template",
        ),
        ({"kind": "PodTemplate", "template": TEMPLATE}, "template"),
        ({"kind": "List", "items": [{"kind": "Pod", "spec": SPEC}]}, "items[0]"),
        (
            {"kind": "PyTorchJob", "spec": REPLICAS},
            "spec.pytorchReplicaSpecs.Worker.template",
        ),
    ],
)
def test_a_pod_is_found_wherever_it_stands(value: dict[str, Any], field: str) -> None:
    value["metadata"] = {"name": "train", "namespace": "team"}
    found = parse_workload("f", json.dumps(value))
    assert found.field == field
    assert found.pod["spec"] == SPEC
    assert found.place("spec.x") == (f"{field}.spec.x" if field else "spec.x")
    if not field.startswith("items"):  # a List names none of its items
        names = found.pod["metadata"]["namespace"], found.pod["metadata"]["name"]
        assert names == ("team", "train")


def test_yaml_is_read_as_well_and_a_nameless_pod_gets_a_name() -> None:
    found = parse_workload("f", "---\nkind: Pod\nspec:\n  containers:\n  - name: main\n---\n")
    assert found.pod["metadata"] == {"name": "pod", "namespace": "default"}
    generated = parse_workload("f", "metadata: {generateName: run-}\nspec: {containers: []}")
    assert generated.pod["metadata"]["name"] == "run"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "f: spec.containers: is missing"),
        ("- 1\n- x\n", "f: spec.containers: is missing"),
        ("kind: Pod\nspec: {nodeName: n}\n", "f: spec.containers: is missing"),
        ("kind: Pod\nspec: [\n", "f:3: is not YAML"),
        ("a: b: c\n", "f:1: is not YAML"),
        ("{" * 5000, "f"),
        ("spec: {containers: []}\n---\nspec: {containers: []}\n", "f: 2 pods (a Pod, a Pod)"),
        ("spec: {containers: 3}\n", "f: spec.containers: must be an array"),
        ("spec: {containers: [3]}\n", "f: spec.containers[0]: must be an object"),
        (
            "spec: {template: {spec: {containers: [{resources: 3}]}}}\n",
            "f: spec.template.spec.containers[0].resources: must be an object",
        ),
        (
            "spec: {containers: [{resources: {limits: x}}]}\n",
            "f: spec.containers[0].resources.limits: must be an object",
        ),
        (
            "metadata: {annotations: {a: 1}}\nspec: {containers: []}\n",
            "f: metadata.annotations[a]: must be a text; put 1 in quotes",
        ),
        ("metadata: {annotations: 1}\nspec: {containers: []}\n", "f: metadata.annotations: must"),
    ],
)
def test_what_is_no_pod_is_named_by_file_and_place(text: str, named: str) -> None:
    with pytest.raises(BadWorkload) as caught:
        parse_workload("f", text)
    assert str(caught.value).startswith(named)
    assert "\n" not in str(caught.value)
