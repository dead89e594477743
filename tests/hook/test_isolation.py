"""docs/isolation.md agrees with the tests."""

import re

from tests.hook import isolation
from tests.hook.container import ROOT


def test_the_page_follows_the_tests() -> None:
    assert isolation.PAGE.read_text() == isolation.page(), "run python -m tests.hook.isolation"


def test_the_page_names_existing_tests_and_each_way_out_once() -> None:
    for module, function in re.findall(r"`(\w+\.py)::(\w+)`", isolation.page()):
        assert f"def {function}(" in (ROOT / "tests" / "hook" / "escapes" / module).read_text()
    ways = [each.way for each in isolation.escapes()] + [
        way for way, _ in (*isolation.OPEN, *isolation.DECLARED)
    ]
    assert len(set(ways)) == len(ways) > 20
    assert not any("|" in way or "\n" in way for way in ways)
