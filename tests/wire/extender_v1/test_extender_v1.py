"""The bodies of bind and preempt, and the scores, as kube-scheduler 1.22 and 1.34 have them."""

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from gpustack.wire import extender_v1 as bodies
from gpustack.wire.extender_v1.filter import MOST_NODES

BINDING = {"PodName": "web-0", "PodNamespace": "team", "PodUID": "u-1", "Node": "gpu1"}
POD = {"metadata": {"name": "vip", "namespace": "team", "uid": "u-9"}, "spec": {"priority": 1000}}

# Marshalled preemption arguments; 1.22 and 1.34 differ only inside the pods.
META = {
    "Pod": POD,
    "NodeNameToVictims": None,
    "NodeNameToMetaVictims": {
        "gpu1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1},
        "gpu2": {"Pods": [{"UID": "c"}], "NumPDBViolations": 0},
    },
}
FULL_1_22 = {
    "Pod": POD,
    "NodeNameToVictims": {
        "gpu1": {
            "Pods": [
                {"metadata": {"name": "a", "uid": "a", "selfLink": ""}, "spec": {}, "status": {}},
                {"metadata": {"name": "b", "uid": "b"}, "spec": {"containers": None}},
            ],
            "NumPDBViolations": 1,
        },
        "gpu2": {"Pods": [{"metadata": {"uid": "c"}}], "NumPDBViolations": 0},
    },
    "NodeNameToMetaVictims": None,
}
READ = {
    "gpu1": bodies.NodeVictims(uids=("a", "b"), pdb_violations=1),
    "gpu2": bodies.NodeVictims(uids=("c",)),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Pods", "pods", "UID", "metadata", "uid", "NumPDBViolations", "n"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


def recased(value: Any, change: Any) -> Any:
    """Return the body with the names of Go's untagged fields in another case."""
    if isinstance(value, dict):
        return {
            change(name) if name[:1].isupper() else name: recased(each, change)
            for name, each in value.items()
        }
    return [recased(each, change) for each in value] if isinstance(value, list) else value


def test_a_binding_is_read_with_all_its_fields() -> None:
    args = bodies.decode_binding_args(json.dumps(BINDING).encode())
    assert args.node == "gpu1"
    assert args.pod == bodies.PodName(namespace="team", name="web-0", uid="u-1")


@pytest.mark.parametrize("change", [str.lower, str.upper, str.swapcase])
def test_names_are_read_in_any_case_and_others_passed_over(change: Any) -> None:
    binding = {**recased(BINDING, change), "dryRun": ["All"]}
    assert bodies.decode_binding_args(json.dumps(binding).encode()).node == "gpu1"
    for form in (META, FULL_1_22):
        body = {**recased(form, change), "NewField": {}}
        assert bodies.decode_preemption_args(json.dumps(body).encode()).victims == READ


@pytest.mark.parametrize("field", sorted(BINDING))
@pytest.mark.parametrize("value", [None, "", 7, [], "x" * 254])
def test_a_binding_without_one_of_its_fields_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(bodies.BadBody, match=f"^{field}: ") as caught:
        bodies.decode_binding_args(json.dumps({**BINDING, field: value}).encode())
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_a_pod_of_a_long_name_is_refused_by_name(field: str) -> None:
    """The last decisions are kept with the names of their pods."""
    pod = {"metadata": {"name": "vip", "namespace": "team", "uid": "u-9", field: "x" * 254}}
    body = json.dumps({"Pod": pod, "NodeNames": ["gpu1"]}).encode()
    with pytest.raises(bodies.BadBody, match=rf"Pod\.metadata\.{field}: has 254 characters"):
        bodies.decode_filter_args(body)


def test_victims_are_read_in_both_forms_and_in_the_old_name() -> None:
    old = {"pod": POD, "nodeToVictims": FULL_1_22["NodeNameToVictims"]}
    for body in (META, FULL_1_22, old):
        args = bodies.decode_preemption_args(json.dumps(body).encode())
        assert (args.pod.uid, args.victims) == ("u-9", READ)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"Pod": None}, "Pod"),
        ({"NodeNameToMetaVictims": None}, "NodeNameToMetaVictims"),
        ({"NodeNameToMetaVictims": []}, "NodeNameToMetaVictims"),
        ({"NodeNameToMetaVictims": {"n": 1}}, "NodeNameToMetaVictims[n]"),
        ({"NodeNameToMetaVictims": {"n": {"Pods": {}}}}, "NodeNameToMetaVictims[n].Pods"),
        ({"NodeNameToMetaVictims": {"n": {"Pods": [1]}}}, "NodeNameToMetaVictims[n].Pods[0]"),
        ({"NodeNameToMetaVictims": {"n": {"Pods": [{}]}}}, "NodeNameToMetaVictims[n].Pods[0].UID"),
        (
            {"NodeNameToMetaVictims": {"n": {"NumPDBViolations": "1"}}},
            "NodeNameToMetaVictims[n].NumPDBViolations",
        ),
        (
            {
                "NodeNameToMetaVictims": None,
                "NodeNameToVictims": {"n": {"Pods": [{"metadata": {}}]}},
            },
            "NodeNameToVictims[n].Pods[0].metadata.uid",
        ),
    ],
)
def test_a_wrong_preemption_body_names_its_place(change: dict[str, Any], field: str) -> None:
    with pytest.raises(bodies.BadBody) as caught:
        bodies.decode_preemption_args(json.dumps({**META, **change}).encode())
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_victims_that_are_null_are_an_empty_list() -> None:
    body = {"Pod": POD, "NodeNameToMetaVictims": {"n": {"Pods": None, "NumPDBViolations": None}}}
    args = bodies.decode_preemption_args(json.dumps(body).encode())
    assert args.victims == {"n": bodies.NodeVictims(uids=())}


@hypothesis.given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_body_or_refused(raw: bytes) -> None:
    for decode in (bodies.decode_binding_args, bodies.decode_preemption_args):
        with pytest.raises(bodies.BadBody):
            decode(raw)


@hypothesis.given(JSON)
def test_any_victims_are_read_or_refused_with_their_place(value: Any) -> None:
    raw = json.dumps({"Pod": POD, "NodeNameToMetaVictims": {"n": value}}).encode()
    try:
        read = bodies.decode_preemption_args(raw).victims
    except bodies.BadBody as error:
        place = error.field
    else:
        place = "NodeNameToMetaVictims[n]"
        assert all(uid for victims in read.values() for uid in victims.uids)
    assert place.startswith("NodeNameToMetaVictims[n]")


@hypothesis.given(
    st.dictionaries(
        st.text(max_size=5),
        st.builds(
            bodies.NodeVictims,
            uids=st.lists(st.text(min_size=1, max_size=5), max_size=3).map(tuple),
            pdb_violations=st.integers(0, 1 << 40),
        ),
        max_size=4,
    )
)
def test_victims_that_are_written_can_be_read(victims: dict[str, bodies.NodeVictims]) -> None:
    answer = json.loads(bodies.encode_preemption_result(victims))
    assert list(answer) == ["NodeNameToMetaVictims"]
    again = json.dumps({"Pod": POD, **answer}).encode()
    assert bodies.decode_preemption_args(again).victims == victims


def test_answers_are_spelt_as_extender_v1_has_them() -> None:
    assert json.loads(bodies.encode_binding_result()) == {"Error": ""}
    asked = bodies.decode_filter_args(json.dumps({"Pod": POD, "NodeNames": ["b", "a"]}).encode())
    assert json.loads(bodies.encode_priorities(asked, [10, 0])) == [
        {"Host": "b", "Score": 10},
        {"Host": "a", "Score": 0},
    ]
    written = bodies.encode_preemption_result(READ)
    assert json.loads(written)["NodeNameToMetaVictims"] == META["NodeNameToMetaVictims"]


@pytest.mark.parametrize("form", ["NodeNames", "Nodes"])
def test_a_call_about_too_many_nodes_is_refused_by_name(form: str) -> None:
    """Of names with one character each, the 16 MB of a body would take 350 MB."""

    def body(count: int) -> bytes:
        items = {"items": [{"metadata": {"name": "a"}}] * count}
        return json.dumps(
            {"Pod": POD, form: ["a"] * count if form == "NodeNames" else items}
        ).encode()

    assert len(bodies.decode_filter_args(body(MOST_NODES)).names) == MOST_NODES
    refused = f"^{form}.*: has {MOST_NODES + 1} nodes; a call names {MOST_NODES} at most"
    with pytest.raises(bodies.BadBody, match=refused):
        bodies.decode_filter_args(body(MOST_NODES + 1))
