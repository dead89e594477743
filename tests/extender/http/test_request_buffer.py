"""A request is the same however the network cuts it."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.http.request_buffer import HEAD_BYTES, RequestBuffer

LIMIT = 1000


def new() -> RequestBuffer:
    return RequestBuffer(lambda _head: LIMIT)


def feed(data: bytes, cuts: list[int]) -> RequestBuffer:
    arrival = new()
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
    assert (arrival.head, arrival.body) == (head(len(body)), body)
    assert arrival.rest == rest
    assert arrival.kept_bytes == len(head(len(body)) + body + rest)


@given(body=st.binary(min_size=1, max_size=LIMIT), cut=st.integers(0, LIMIT + 200))
def test_a_request_is_complete_with_its_last_byte_and_not_before(body: bytes, cut: int) -> None:
    data = head(len(body)) + body
    arrival = new()
    arrival.take(data[: min(cut, len(data) - 1)])
    assert not arrival.complete
    assert arrival.kept_bytes == min(cut, len(data) - 1)
    arrival.take(data[min(cut, len(data) - 1) :])
    assert arrival.complete


@given(more=st.integers(1, 5000), cuts=st.lists(st.integers(0, 7000), max_size=20))
def test_a_body_over_the_limit_is_taken_and_not_kept(more: int, cuts: list[int]) -> None:
    length = LIMIT + more
    arrival = feed(head(length) + b"x" * length + b"GET", cuts)
    assert arrival.complete
    assert arrival.refused
    assert (arrival.head, arrival.body) == (head(length), b"")
    assert arrival.rest == b"GET"
    assert arrival.kept_bytes < 200


@pytest.mark.parametrize("length", ["", "-1", "1x", "0x10", "1, 2"])
def test_a_bad_length_leaves_the_head_to_the_parser(length: str) -> None:
    arrival = feed(head(length), [])
    assert arrival.complete
    assert (arrival.head, arrival.body) == (head(length), b"")


@given(st.integers(1, 6000), st.integers(0, 6000), st.lists(st.integers(0, 13_000), max_size=9))
@example(digits=1001, zeros=0, cuts=[])
@example(digits=5000, zeros=0, cuts=[])
def test_a_body_of_any_length_over_the_limit_is_refused_at_once(
    digits: int, zeros: int, cuts: list[int]
) -> None:
    """The length may have any number of digits: Python refuses numbers of more than 4300."""
    arrival = feed(head("0" * zeros + "9" * (digits + 9)), cuts)
    assert arrival.complete
    assert arrival.refused
    assert arrival.length_bytes > LIMIT


@given(st.integers(0, LIMIT), st.integers(0, 6000))
def test_zeros_before_a_length_change_nothing(length: int, zeros: int) -> None:
    arrival = feed(head("0" * zeros + str(length)) + b"x" * length, [])
    assert arrival.complete
    assert (arrival.length_bytes, len(arrival.body), arrival.refused) == (length, length, False)


def test_a_body_without_a_limit_for_its_head_is_not_kept() -> None:
    arrival = RequestBuffer(lambda head: LIMIT if head.startswith(b"POST") else 0)
    arrival.take(head(3).replace(b"POST", b"GET") + b"abc" + b"next")
    assert arrival.complete
    assert (arrival.body, arrival.rest, arrival.length_bytes) == (b"", b"next", 3)


def test_a_refused_head_is_complete_without_its_body() -> None:
    arrival = RequestBuffer(lambda _head: None)
    arrival.take(head(9, "Expect: 100-continue") + b"abc")
    assert arrival.complete
    assert arrival.refused
    assert not arrival.continuable
    assert arrival.body == b""


def test_a_refused_head_without_a_body_ends_nothing() -> None:
    arrival = RequestBuffer(lambda _head: None)
    arrival.take(head(0) + b"GET")
    assert (arrival.complete, arrival.refused, arrival.rest) == (True, False, b"GET")


def test_a_head_without_an_end_is_too_long_at_the_limit() -> None:
    arrival = new()
    arrival.take(b"GET / HTTP/1.1\r\nX: ")
    assert not arrival.too_long
    arrival.take(b"x" * HEAD_BYTES)
    assert arrival.too_long


def test_a_client_that_waits_for_100_continue_gets_it_once() -> None:
    arrival = feed(head(3, "Expect: 100-continue"), [])
    assert arrival.continuable
    assert not arrival.complete
    arrival.take(b"abc")
    assert (arrival.head, arrival.body) == (head(3), b"abc")


def test_a_client_with_too_large_a_body_gets_no_100_continue() -> None:
    assert not feed(head(LIMIT + 1, "Expect: 100-continue"), []).continuable


def test_an_expectation_in_the_place_of_the_request_line_stays() -> None:
    first = b"\r\nExpect: 100-continue\r\nGET / HTTP/1.1\r\n\r\n"
    assert feed(first, []).head == first
