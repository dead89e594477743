"""YAML and JSON files: read as the Kubernetes tools read them, wrong places by line."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpustack.wire.files.documents import BadDocument, documents

LIMITS = "spec.containers[0].resources.limits[tencent.com/vcuda-core]"
POD = """\
---
# a comment alone is no document
---
kind: Pod
spec:
  containers:
  - name: main
    resources:
      limits:
        tencent.com/vcuda-core: abc
---
kind: Service
"""


def test_each_document_knows_on_which_line_a_field_stands() -> None:
    pod, service = documents("f.yaml", POD)
    assert pod.value["kind"] == "Pod"
    assert service.value == {"kind": "Service"}
    assert pod.place(LIMITS) == f"f.yaml:10: {LIMITS}"
    assert pod.place("spec.containers[0]") == "f.yaml:7: spec.containers[0]"
    assert service.place("kind") == "f.yaml:12: kind"


def test_a_missing_field_is_placed_at_the_object_around_it() -> None:
    pod, _ = documents("f.yaml", POD)
    assert pod.place("spec.containers[0].resources.limits[other]").startswith("f.yaml:9: ")
    assert pod.place("spec.nodeSelector").startswith("f.yaml:5: ")
    assert pod.place("spec.containers[7]").startswith("f.yaml:6: ")


def test_json_has_lines_too_and_may_be_indented_by_tabs() -> None:
    text = json.dumps({"spec": {"containers": [{"name": "a"}]}}, indent=2)
    [document] = documents("f.json", text)
    assert document.place("spec.containers[0].name") == "f.json:5: spec.containers[0].name"
    tabs = json.dumps({"spec": {"nodeName": "a"}}, indent="\t")
    [document] = documents("f.json", tabs)
    assert document.place("spec.nodeName") == "f.json: spec.nodeName"


def test_a_date_is_a_text_and_flow_style_is_yaml() -> None:
    [document] = documents("f", "{at: 2026-01-01, to: [1]}\n")
    assert document.value == {"at": "2026-01-01", "to": [1]}
    [document] = documents("f", '{"a": 1,}  # YAML allows the comma\n')
    assert document.value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f: is empty"),
        (" \n---\n", "f: is empty"),
        ("kind: Pod\nspec: [\n", "f:3:1: is not YAML: "),
        ("a: b: c\n", "f:1:5: is not YAML: mapping values are not allowed here"),
        ("a: 1\nb:\n  c: 2\n  c: 3\n", "f:4:3: is not YAML: the key 'c' stands twice"),
        ("a: !!int x\n", "f:1:4: is not YAML: 'x' is no int"),
        ("a: !!timestamp x\n", "f:1:4: is not YAML: 'x' is no timestamp"),
        ("a: !!bool maybe\n", "f:1:4: is not YAML: 'maybe' is no bool"),
        ("a: !!float ''\n", "f:1:4: is not YAML: '' is no float"),
        ("a: !!set [b]\n", "f:1:4: is not YAML: a list is no mapping"),
        ("a: *nobody\n", "f:1:4: is not YAML: found undefined alias"),
        ("? [a]\n: 1\n", "f:1:3: is not YAML: found unhashable key"),
        ("a: \x00\n", "f: is not YAML: unacceptable character"),
        ('{"kind": "Pod",\n "spec": {"contai', "f:2:11: is not JSON: Unterminated string"),
        ('{"kind": "Pod",\n', "f:2:1: is not JSON: Expecting property name"),
        ('{"a": 1, "a": 2}', "f: is not JSON: the key 'a' stands twice"),
        ('{"a": ' + "[" * 100_000, "f: is nested too deeply"),
        ("[" * 5_000, "f: is nested too deeply"),
    ],
)
def test_text_of_another_form_is_refused_by_line_and_column(text: str, problem: str) -> None:
    with pytest.raises(BadDocument) as caught:
        documents("f", text)
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)


def test_aliases_may_merge_what_they_name() -> None:
    [document] = documents("f", "a: &a {x: 1}\nb: {<<: *a, x: 2}\n")
    assert document.value["b"] == {"x": 2}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii"), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text("abc", min_size=1), VALUES, min_size=1))
def test_a_value_reads_back_from_either_form(value: dict[str, object]) -> None:
    assert documents("f", json.dumps(value))[0].value == value
    assert documents("f", yaml.safe_dump(value))[0].value == value
