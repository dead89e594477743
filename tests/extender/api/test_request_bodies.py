"""Any body is read or refused by name; nodes and names go back unchanged."""

import json
from collections.abc import Callable
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from gpustack.wire import extender_v1 as bodies

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.dictionaries(
    st.sampled_from(["Pod", "pod", "Nodes", "nodes", "NodeNames", "NODENAMES", "other"]),
    JSON
    | st.just({"metadata": {"name": "p", "uid": "1"}})
    | st.just({"items": [{"metadata": {"name": "n"}}]}),
)


def read(raw: bytes) -> bodies.FilterArgs | None:
    try:
        return bodies.decode_filter_args(raw)
    except bodies.BadBody:
        return None


@hypothesis.given(st.binary())
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    assert read(raw) is None or json.loads(raw)


@hypothesis.given(FIELDS)
def test_any_object_is_read_or_refused(fields: dict[str, Any]) -> None:
    args = read(json.dumps(fields).encode())
    if args is not None:
        assert args.pod.uid
        assert args.items is None or len(args.items) == len(args.names)


@hypothesis.given(st.lists(JSON, max_size=5))
def test_full_nodes_come_back_unchanged(extras: list[Any]) -> None:
    items = [{"metadata": {"name": f"n{i}"}, "extra": extra} for i, extra in enumerate(extras)]
    fields = {"pod": {"metadata": {"name": "p", "uid": "1"}}, "nodes": {"items": items}}
    args = bodies.decode_filter_args(json.dumps(fields).encode())
    names = args.names[::2]
    answer = bodies.encode_filter_result(args, chosen=names, failed={}, unresolvable={})
    assert json.loads(answer)["Nodes"]["items"] == items[::2]
    assert json.loads(bodies.encode_filter_echo(args))["Nodes"] == {"items": items}


ANY_NAMES = st.lists(
    st.text(st.characters(codec="utf-8") | st.sampled_from('",\\[] {}'), max_size=8)
)


@hypothesis.given(
    ANY_NAMES, st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":")]), st.booleans()
)
@hypothesis.example(['","'], (",", ":"), False)
@hypothesis.example(["a, b", 'c"'], (", ", ": "), False)
def test_names_come_back_unchanged_in_any_spelling(
    names: list[str], separators: tuple[str, str], in_ascii: bool
) -> None:
    fields = {"Pod": {"metadata": {"name": "p", "uid": "1"}}, "NodeNames": names}
    text = json.dumps(fields, separators=separators, ensure_ascii=in_ascii)
    args = bodies.decode_filter_args(text.encode())
    assert args.names == tuple(names)
    assert json.loads(bodies.encode_filter_echo(args))["NodeNames"] == names
    scores = [at % (bodies.MOST + 1) for at in range(len(names))]
    assert json.loads(bodies.encode_priorities(args, scores)) == [
        {"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)
    ]


@hypothesis.given(
    st.lists(st.integers(0, bodies.MOST), max_size=150)
    | st.lists(st.integers(0, bodies.MOST), min_size=101, max_size=150),
    st.booleans(),
    st.booleans(),
)
@hypothesis.example([3] * 100, True, False)
@hypothesis.example([3] * 101, True, False)
@hypothesis.example([3] * 101, False, False)
def test_left_out_scores_keep_the_order_of_nodes(
    scores: list[int], compact: bool, full: bool
) -> None:
    names = [f"node-{at}" for at in range(len(scores))]
    items = {"items": [{"metadata": {"name": name}} for name in names]}
    nodes = {"Nodes": items} if full else {"NodeNames": names}
    body = {"Pod": {"metadata": {"name": "p", "uid": "1"}}, **nodes}
    text = json.dumps(body, separators=(",", ":") if compact else None)
    answer = json.loads(bodies.encode_priorities(bodies.decode_filter_args(text.encode()), scores))
    given = {each["Host"]: each["Score"] for each in answer}
    assert list(given) == [name for name in names if name in given]
    many = len(scores) > 100
    taken_off = min(scores) if many else 0
    assert [given.get(name, 0) for name in names] == [score - taken_off for score in scores]
    assert 0 not in given.values() if many else len(answer) == len(names)


def test_node_names_win_over_nodes() -> None:
    pod = {"metadata": {"name": "p", "uid": "1"}}
    fields = {"Pod": pod, "Nodes": {"items": []}, "NodeNames": ["a"]}
    args = bodies.decode_filter_args(msgspec.json.encode(fields))
    assert args.names == ("a",)
    assert args.pod.namespace == "default"


def test_a_wrong_field_is_named_with_its_place() -> None:
    pod = {"metadata": {"name": 7, "uid": "1"}}
    with pytest.raises(bodies.BadBody, match=r"Pod\.metadata\.name: Expected `str`, got `int`"):
        bodies.decode_filter_args(msgspec.json.encode({"Pod": pod, "NodeNames": []}))


NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
NODE = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": NAMES}, optional={"labels": JSON})},
    optional={"kind": st.just("Node"), "spec": JSON},
)
EXACT = st.fixed_dictionaries(
    {"Pod": st.just({"metadata": {"name": "p", "uid": "1", "namespace": "a"}})},
    optional={
        "Nodes": st.none() | st.fixed_dictionaries({"items": st.none() | st.lists(NODE)}),
        "NodeNames": st.none() | st.lists(NAMES),
        "Other": JSON,
    },
)


def respelt(value: Any, spell: Callable[[str], str]) -> Any:
    """Return a value with all of its field names spelt another way, at every depth."""
    if isinstance(value, list):
        return [respelt(each, spell) for each in value]
    if isinstance(value, dict):
        return {spell(name): respelt(each, spell) for name, each in value.items()}
    return value


@pytest.mark.parametrize("spell", [str.upper, str.lower, str.title])
@hypothesis.given(EXACT)
def test_names_are_found_in_any_case_at_any_depth(
    spell: Callable[[str], str], fields: dict[str, Any]
) -> None:
    exact, other = (read(json.dumps(each).encode()) for each in (fields, respelt(fields, spell)))
    assert (exact is None) == (other is None)
    if exact is not None and other is not None:
        assert (exact.pod, exact.names) == (other.pod, other.names)


@pytest.mark.parametrize("spell", [str.upper, str.lower, str.title])
def test_victims_are_found_in_any_case_at_any_depth(spell: Callable[[str], str]) -> None:
    full = [{"metadata": {"name": "v", "uid": "2"}}]
    pod = {"metadata": {"name": "p", "uid": "1"}}
    fields = {"Pod": pod, "NodeNameToVictims": {"n": {"Pods": full, "NumPDBViolations": 1}}}
    args = bodies.decode_preemption_args(json.dumps(respelt(fields, spell)).encode())
    assert args.pod.uid == "1"
    assert list(args.victims.values()) == [bodies.NodeVictims(uids=("2",), pdb_violations=1)]


def test_null_is_read_as_missing_in_every_field_of_go() -> None:
    pod = {"metadata": {"name": "p", "namespace": None, "uid": "1"}}
    args = read(json.dumps({"Pod": pod, "Nodes": {"items": None}, "NodeNames": None}).encode())
    assert args is not None
    assert (args.pod.namespace, args.items) == ("default", ())


@hypothesis.given(EXACT, st.booleans())
def test_a_body_in_gos_spelling_is_read_as_in_any_other(
    fields: dict[str, Any], compact: bool
) -> None:
    separators = (",", ":") if compact else None
    exact = read(json.dumps(fields, separators=separators).encode())
    lower = read(json.dumps({name.lower(): each for name, each in fields.items()}).encode())
    assert (exact is None) == (lower is None)
    if exact is not None and lower is not None:
        assert (exact.pod, exact.names) == (lower.pod, lower.names)
        assert (exact.items is None) == (lower.items is None)
        echoes = bodies.encode_filter_echo(exact), bodies.encode_filter_echo(lower)
        assert json.loads(echoes[0]) == json.loads(echoes[1])
