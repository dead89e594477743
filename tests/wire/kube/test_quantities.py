"""Quantities as Kubernetes writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.wire.kube.quantities import parse_quantity, parse_whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50", 50),
        (50, 50),
        ("1k", 1000),
        ("1Ki", 1024),
        ("500m", 1),
        ("1500m", 2),
        ("-500m", -1),
        ("1n", 1),
        ("0", 0),
        ("0.0", 0),
        ("1e2", 100),
        ("1E2", 100),
        ("2E", 2 * 10**18),
        ("1.5Gi", 3 << 29),
        ("+5", 5),
        (".5k", 500),
        (50.0, 50),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_a_quantity_is_read_as_go_reads_its_value(text: object, value: int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "",
        " 5",
        "5 ",
        "1kk",
        "1ki",
        "0x10",
        "1_000",
        "\u0663",
        "nan",
        "inf",
        None,
        True,
        [],
        "1e",
    ],
)
def test_text_that_is_not_a_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "1e999", "9Ei", "-1e30"])
def test_a_quantity_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="larger than any node"):
        parse_quantity(text)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_whole_numbers_read_back(value: int) -> None:
    assert parse_quantity(str(value)) == parse_quantity(value) == value


@given(st.integers(0, 10**15), st.sampled_from(["m", "u", "n"]))
def test_fractions_round_up(value: int, suffix: str) -> None:
    scale = {"m": 10**3, "u": 10**6, "n": 10**9}[suffix]
    assert parse_quantity(f"{value}{suffix}") == -(-value // scale)


@pytest.mark.parametrize("text", ["0.5", "100m", "1n", 0.5, "-0.1", "1e-3"])
def test_a_part_of_a_unit_is_refused_where_whole_numbers_are_wanted(text: object) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_whole(text)


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(["", ".0", "e0", "000m"]))
def test_whole_numbers_are_taken_in_every_spelling(value: int, suffix: str) -> None:
    assert parse_whole(f"{value}{suffix}") == value
