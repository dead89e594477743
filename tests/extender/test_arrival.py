"""A request is the same however the network cuts it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.arrival import HEAD_BYTES, Arrival

LIMIT = 1000


def feed(data: bytes, cuts: list[int]) -> Arrival:
    arrival = Arrival(LIMIT)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        arrival.take(data[start:end])
    return arrival


def head(length: object, *more: str) -> bytes:
    lines = ["POST /scheduler/filter HTTP/1.1", "Host: x", f"Content-Length: {length}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


@given(
    body=st.binary(max_size=LIMIT),
    rest=st.binary(max_size=50),
    cuts=st.lists(st.integers(0, LIMIT + 200), max_size=20),
)
def test_head_body_and_rest_do_not_depend_on_the_cuts(
    body: bytes, rest: bytes, cuts: list[int]
) -> None:
    arrival = feed(head(len(body)) + body + rest, cuts)
    assert arrival.complete
    assert arrival.parts == (head(len(body)), body)
    assert arrival.rest == rest


@given(body=st.binary(min_size=1, max_size=LIMIT), cut=st.integers(0, LIMIT + 200))
def test_a_request_is_complete_with_its_last_byte_and_not_before(body: bytes, cut: int) -> None:
    data = head(len(body)) + body
    arrival = Arrival(LIMIT)
    arrival.take(data[: min(cut, len(data) - 1)])
    assert not arrival.complete
    arrival.take(data[min(cut, len(data) - 1) :])
    assert arrival.complete


@given(more=st.integers(1, 5000), cuts=st.lists(st.integers(0, 7000), max_size=20))
def test_a_body_over_the_limit_is_taken_and_not_kept(more: int, cuts: list[int]) -> None:
    length = LIMIT + more
    arrival = feed(head(length) + b"x" * length + b"GET", cuts)
    assert arrival.complete
    assert arrival.refused
    assert arrival.parts == (head(length), b"")
    assert arrival.rest == b"GET"
    assert arrival.kept_bytes < 200


@pytest.mark.parametrize("length", ["", "-1", "1x", "0x10", "1, 2"])
def test_what_is_no_length_leaves_the_head_to_the_parser(length: str) -> None:
    arrival = feed(head(length), [])
    assert arrival.complete
    assert arrival.parts == (head(length), b"")


@pytest.mark.parametrize("length", [1 << 40, int("9" * 40)])
def test_a_body_beyond_all_bounds_is_not_waited_for(length: int) -> None:
    arrival = feed(head(length), [])
    assert arrival.complete
    assert arrival.refused


def test_a_head_without_an_end_is_too_long_in_the_end() -> None:
    arrival = Arrival(LIMIT)
    arrival.take(b"GET / HTTP/1.1\r\nX: ")
    assert not arrival.too_long
    arrival.take(b"x" * HEAD_BYTES)
    assert arrival.too_long


def test_who_waits_for_100_continue_gets_it_once() -> None:
    arrival = feed(head(3, "Expect: 100-continue"), [])
    assert arrival.continuable
    assert not arrival.complete
    arrival.take(b"abc")
    assert arrival.parts == (head(3), b"abc")


def test_who_would_send_too_much_is_not_told_to_go_on() -> None:
    assert not feed(head(LIMIT + 1, "Expect: 100-continue"), []).continuable
