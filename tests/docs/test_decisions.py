"""The tests that a decision names are there."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "decisions").glob("*.md"))
NAMED = re.compile(r"`(?:tests/)?([\w/]+\.py)::(test_\w+)`")


def named() -> list[tuple[str, str, str]]:
    """Return page, file below `tests/` and function of every test that a page names."""
    return [
        (page.name, *found)
        for page in PAGES
        for found in dict.fromkeys(NAMED.findall(page.read_text("utf-8")))
    ]


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_every_test_that_a_decision_names_exists(page: str) -> None:
    missing = [
        f"{file}::{function}"
        for where, file, function in named()
        if where == page
        and not re.search(rf"^def {function}\(", (ROOT / "tests" / file).read_text("utf-8"), re.M)
    ]
    assert missing == []


def test_the_list_of_faults_has_a_test_for_each() -> None:
    text = (ROOT / "docs" / "decisions" / "0008-thirty-faults.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+)(?: \+)? \|[^|]*\|([^|]*)\|", text, re.MULTILINE)
    assert {int(fault) for fault, tests in rows if ".py" in tests} == set(range(1, 31))
