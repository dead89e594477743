"""The pod of a file, in whatever object it stands."""

import json
from typing import Any

import pytest

from gpustack.wire.files.documents import BadDocument
from gpustack.wire.kube.pod_templates import BadPodTemplate, parse_pod_templates

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
    [found] = parse_pod_templates("f", json.dumps(value))
    assert found.field == field
    assert found.pod["spec"] == SPEC
    assert found.place("spec.x") == f"f:1: {f'{field}.spec.x' if field else 'spec.x'}"
    if not field.startswith("items"):  # a List names none of its items
        names = found.pod["metadata"]["namespace"], found.pod["metadata"]["name"]
        assert names == ("team", "train")


def test_yaml_is_read_as_well_and_a_nameless_pod_gets_a_name() -> None:
    [found] = parse_pod_templates(
        "f", "---\nkind: Pod\nspec:\n  containers:\n  - name: main\n---\n"
    )
    assert found.pod["metadata"] == {"name": "pod", "namespace": "default"}
    [generated] = parse_pod_templates("f", "metadata: {generateName: run-}\nspec: {containers: []}")
    assert generated.pod["metadata"]["name"] == "run"
    assert generated.title == "default/run"


def test_all_pods_of_a_file_are_found_with_the_names_of_their_objects() -> None:
    one = {"kind": "Deployment", "metadata": {"name": "one"}, "spec": {"template": TEMPLATE}}
    two = {"kind": "Pod", "metadata": {"name": "two", "namespace": "team"}, "spec": SPEC}
    text = json.dumps({"kind": "List", "metadata": {}, "items": [one, two]})
    service = "kind: Service\nmetadata: {name: web}\n"
    found = parse_pod_templates("f", f"{service}---\n{text}\n---\nspec: {{containers: []}}\n")
    assert [each.title for each in found] == ["default/one", "team/two", "default/pod"]
    assert [each.field for each in found] == ["items[0].spec.template", "items[1]", ""]
    assert [each.place("spec").split(":")[1] for each in found] == ["4", "4", "6"]


def test_aliases_of_aliases_cost_no_more_than_what_is_written() -> None:
    lines = ["a0: &a0 [1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 20)]
    with pytest.raises(BadPodTemplate, match=r"spec\.containers: is missing"):
        parse_pod_templates("f", "\n".join(lines))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("- 1\n- x\n", "f: spec.containers: is missing"),
        ("kind: Pod\nspec: {nodeName: n}\n", "f: spec.containers: is missing"),
        ("kind: Pod\nspec: [\n", "f:3:1: is not YAML"),
        ("spec: {containers: 3}\n", "f:1: spec.containers: must be an array"),
        ("spec:\n  containers:\n  - 3\n", "f:3: spec.containers[0]: must be an object"),
        ("spec: {containers: [{name: 3}]}\n", "f:1: spec.containers[0].name: must be a text"),
        (
            "spec: {template: {spec: {containers: [{resources: 3}]}}}\n",
            "f:1: spec.template.spec.containers[0].resources: must be an object",
        ),
        (
            "spec:\n  containers: []\n  initContainers: [{resources: {limits: x}}]\n",
            "f:3: spec.initContainers[0].resources.limits: must be an object",
        ),
        (
            "metadata:\n  annotations: {a: 1}\nspec: {containers: []}\n",
            "f:2: metadata.annotations[a]: must be a text; put 1 in quotes",
        ),
        ("metadata: {annotations: 1}\nspec: {containers: []}\n", "f:1: metadata.annotations: must"),
    ],
)
def test_a_document_that_is_no_pod_is_named_by_file_line_and_field(text: str, named: str) -> None:
    with pytest.raises((BadPodTemplate, BadDocument)) as caught:
        parse_pod_templates("f", text)
    assert str(caught.value).startswith(named)
    assert "\n" not in str(caught.value)
