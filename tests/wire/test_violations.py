"""What a node says of its containers: bounded on both sides, and harmless whatever it says."""

import json
import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.wire import schemas, violations
from gpustack.wire.nodes import decode_node
from gpustack.wire.violations import BadViolations, ShareViolation
from tests.wire.api import KEYS
from tests.wire.test_nodes import PAIR, api_node, body

FOUND: Final = ShareViolation(
    uid="2f1c9d0e-1b7a-4c55-8f0e-0a4c2b6d9e11",
    container="main",
    reason="ShareExceeded",
    since="2026-11-29T04:35:11Z",
)
MOMENTS = st.datetimes().map(lambda when: f"{when.isoformat(timespec='seconds')}Z")
KINDS = st.builds(
    ShareViolation,
    uid=st.text("aZ09._-", min_size=1, max_size=64),
    container=st.text("a0-", max_size=61).map("c{}0".format),
    reason=st.text("aZ0", max_size=63).map("R{}".format),
    since=MOMENTS,
)


def value(**changes: Any) -> str:
    """Return a value of one violation with some of its fields changed."""
    (each,) = json.loads(violations.encode([FOUND]))["violations"]
    return json.dumps({"version": 1, "violations": [each | changes]})


@given(st.lists(KINDS, max_size=2 * violations.MOST))
def test_the_newest_are_written_in_bounds_and_read_again(found: list[ShareViolation]) -> None:
    text = violations.encode(found)
    assert len(text) <= violations.MOST_TEXT_BYTES
    read = violations.decode(text)
    assert len(read) == min(len(found), violations.MOST)
    assert [each.since for each in read] == sorted((each.since for each in found), reverse=True)[
        : violations.MOST
    ]
    assert set(read) <= set(found)
    assert violations.encode(reversed(found)) == text, "the order of finding changes nothing"
    assert schemas.problems(schemas.load("gpu-violations"), json.loads(text)) == []


@given(st.text() | st.lists(st.none() | st.text() | st.lists(st.text())).map(json.dumps))
def test_any_text_is_read_or_refused_in_few_words(text: str) -> None:
    assert len(refusal(text)) < 300


@pytest.mark.parametrize(
    "text",
    [
        value(uid="a\n"),
        value(uid=""),
        value(container="Main"),
        value(container="x" * 64),
        value(reason="share exceeded"),
        value(reason="<b>"),
        value(reason="\x1b[31m"),
        value(since="yesterday"),
        value(since="2026-13-29T04:35:11Z"),
        value(since=None),
        '{"version":2,"violations":[]}',
        json.dumps({"version": 1, "violations": json.loads(value())["violations"] * 33}),
        "[" * 5000,
        "\ud800",
        "no JSON",
    ],
)
def test_a_value_that_no_agent_writes_is_refused(text: str) -> None:
    with pytest.raises(BadViolations, match="the violations can't be read: "):
        violations.decode(text)


def test_a_text_beyond_the_bound_is_kept_and_parsed_by_nobody() -> None:
    spaces = " " * (violations.MOST_TEXT_BYTES - len(value()))
    assert violations.decode(value() + spaces) == (FOUND,)
    kept = violations.text_of(KEYS, saying(value() + 100 * spaces))
    assert len(kept) == violations.MOST_TEXT_BYTES + 1
    with pytest.raises(BadViolations, match="take more than 8192 bytes"):
        violations.decode(kept)


@pytest.mark.parametrize("text", [value(), "no JSON", "x" * 300_000])
def test_the_cards_of_a_node_are_read_whatever_its_violations_are(text: str) -> None:
    assert decode_node(KEYS, saying(text)) == PAIR


def test_keys_of_a_newer_agent_are_passed_over() -> None:
    assert violations.decode(value(count=3)) == (FOUND,)
    assert violations.decode("") == ()


def test_a_node_is_heard_about_the_containers_of_the_pod_alone() -> None:
    later = ShareViolation(**{**as_fields(FOUND), "since": "2026-11-29T05:00:00Z"})
    side = ShareViolation(**{**as_fields(FOUND), "container": "side"})
    other = ShareViolation(**{**as_fields(FOUND), "uid": "another"})
    found = violations.of_pod((later, FOUND, side, other), FOUND.uid, {"main"})
    assert found == (later,), "each kind once"
    assert violations.of_pod((FOUND,), "", {"main"}) == ()


def test_the_schemas_patterns_are_those_of_the_reader() -> None:
    fields = schemas.load("gpu-violations")["properties"]["violations"]["items"]["properties"]
    own = [violations._UID, violations._CONTAINER, violations._REASON, violations._SINCE]
    bare = [re.sub(r"\\A|\\Z", "", each) for each in own]
    assert [each["pattern"].strip("^$") for each in fields.values()] == bare


def saying(text: str) -> Any:
    """Return a node that publishes its cards, and says this of its containers."""
    node = api_node(body())
    node["metadata"]["annotations"][KEYS.gpu_violations] = text
    return node


def refusal(text: str) -> str:
    """Return the words in which a text is refused, none where it isn't."""
    try:
        violations.decode(text)
    except BadViolations as error:
        return str(error)
    return ""


def as_fields(found: ShareViolation) -> dict[str, str]:
    names = "uid", "container", "reason", "since"
    return {name: getattr(found, name) for name in names}
