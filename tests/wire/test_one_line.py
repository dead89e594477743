"""Text of others becomes one line of ours, with unprintable characters written out."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gpustack.wire.one_line import one_line

_LONGEST = 100


@given(st.text(max_size=300))
def test_any_text_becomes_one_bounded_line(text: str) -> None:
    line = one_line(text, _LONGEST)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1
    assert len(line) <= _LONGEST


@given(st.text(st.characters(exclude_categories=("C", "Z")), max_size=_LONGEST))
def test_a_text_that_prints_is_left_alone(text: str) -> None:
    assert one_line(text, _LONGEST) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("python\n<3>kernel: panic", r"python\n<3>kernel: panic"),
        ("a\r\x0b\x0c\x1c\x85\u2028b", r"a\r\x0b\x0c\x1c\x85\u2028b"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("\ud800", r"\ud800"),
        ("träge 模型", "träge 模型"),
    ],
)
def test_unprintable_characters_are_written_out(text: str, line: str) -> None:
    assert one_line(text, _LONGEST) == line


def test_both_ends_of_a_long_text_are_kept() -> None:
    line = one_line("begin " + "x" * 10**6 + " end", _LONGEST)
    assert line.startswith("begin xx")
    assert line.endswith("xx end")
