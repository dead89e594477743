"""Texts by which a node may harm its readers: endless, long and changing ones."""

import json
from typing import Any

import pytest

from gpustack.wire import nodes as nodes_of_wire
from gpustack.wire import schemas
from gpustack.wire.annotations import BadAnnotation
from gpustack.wire.nodes import decode_node
from tests.wire.api import KEYS
from tests.wire.test_nodes import PAIR, api_node, body, broken


@pytest.mark.parametrize("filler", ["x", "\u00e9", "\U0001f600", "\ud800"])
def test_an_annotation_larger_than_the_api_allows_is_not_parsed(filler: str) -> None:
    value = body()
    value["vendor"] = ""
    text = json.dumps(value)
    width = len(filler.encode("utf-8", "surrogatepass"))
    room = nodes_of_wire.MOST_TEXT_BYTES - len(text)
    whole = text.replace('"vendor": ""', f'"vendor": "{filler * (room // width)}"')
    if filler != "\ud800":
        assert decode_node(KEYS, api_node(whole)) == PAIR
    with pytest.raises(BadAnnotation, match=r"bytes; a node's cards are described in 262144 at"):
        decode_node(KEYS, api_node(whole + " " * width))


def test_a_problem_in_a_long_text_is_named_at_once() -> None:
    value = body()
    value["links"] = [[0] * 100_000]
    with pytest.raises(BadAnnotation, match=r"describes no machine: Expected `str`, got `int`"):
        decode_node(KEYS, api_node(json.dumps(value, separators=(",", ":"))))


def test_at_most_twenty_of_thousands_of_problems_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An object of each problem takes 20 us, at every heartbeat of the node."""
    told: list[object] = []
    tell = schemas._tell

    def noted(error: Any) -> str:
        told.append(error)
        return tell(error)

    monkeypatch.setattr(schemas, "_tell", noted)
    with pytest.raises(BadAnnotation, match=r"devices"):
        decode_node(KEYS, api_node(json.dumps({**body(), "devices": [0] * 4000})))
    assert 0 < len(told) <= 20


def test_no_message_repeats_what_a_node_wrote_at_length() -> None:
    for at in (("version",), ("driver",), ("devices", 0, "model"), ("links", 0, 0)):
        for value in ("x" * 10_000, ["x" * 10_000], {"x" * 10_000: 1}):
            with pytest.raises(BadAnnotation) as caught:
                decode_node(KEYS, api_node(broken(*at, value=value)))
            assert len(caught.value.message) < 300


@pytest.mark.long
def test_texts_that_keep_changing_fill_no_memory() -> None:
    known = nodes_of_wire._DECODED
    for number in range(1000):
        value = {**body(), "vendor": f"{number}" + "x" * 200_000}
        decode_node(KEYS, api_node(value))
        assert known.size_bytes <= 96 << 20
    assert len(known) < 200


@pytest.mark.long
@pytest.mark.parametrize("place", ["{}", '{{"version":1,"links":[],"devices":{}}}'])
@pytest.mark.parametrize("nest", [("[", "", "]"), ('{"a":', "1", "}")])
def test_a_text_of_any_depth_leaves_out_its_node_alone(
    place: str, nest: tuple[str, str, str]
) -> None:
    """A text that can just be parsed is too deep to be told; another error would end each watch."""
    for depth in range(500, 1010):  # the limit counts the frames of the test's runner, too
        begin, middle, end = nest
        text = place.format(begin * depth + middle + end * depth)
        with pytest.raises(BadAnnotation):
            decode_node(KEYS, api_node(text))


@pytest.mark.parametrize("at", [("driver",), ("devices", 0, "model"), ("devices", 0, "reason")])
def test_a_text_that_no_answer_could_carry_leaves_out_its_node_alone(at: tuple[Any, ...]) -> None:
    """Half a surrogate pair has no UTF-8: an answer about all nodes would fail for its sake."""
    with pytest.raises(BadAnnotation, match="surrogates not allowed"):
        decode_node(KEYS, api_node(broken(*at, value="\ud800")))


def test_a_name_with_a_newline_at_its_end_is_no_name() -> None:
    """Python's `$` matches before it, too."""
    with pytest.raises(BadAnnotation, match=r"devices\[0\]\.uuid: "):
        decode_node(KEYS, api_node(broken("devices", 0, "uuid", value="GPU-1\n")))
    schema = {"type": "string", "pattern": "^[a-z]+$"}
    assert schemas.problems(schema, "a") == []
    assert len(schemas.problems(schema, "a\n")) == 1
