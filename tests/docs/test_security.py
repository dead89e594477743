"""docs/security.md names tests that exist; its tables are checked as those of the reference."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))

ELSEWHERE = {"the table below", "the tests that its rows name"}  # which tests of their own check


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_a_test_that_the_threat_model_names_exists(file: str, function: str) -> None:
    assert re.search(rf"^def {function}\(", (ROOT / file).read_text("utf-8"), re.M)


def test_every_promise_of_the_threat_model_has_a_test() -> None:
    chapters = PAGE.partition("## What holds")[2].partition("## Who may write what")[0]
    promises = [line for line in chapters.splitlines() if re.match(r"\| (?!promise)[A-Z]", line)]
    assert len(promises) > 20
    held = [line.split("|")[-2].strip() for line in promises]
    assert [each for each in held if "::" not in each and each not in ELSEWHERE] == []
