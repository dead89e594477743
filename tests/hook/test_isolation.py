"""docs/isolation.md agrees with the tests."""

import re

from tests.hook import isolation
from tests.hook.container import ROOT


def test_the_page_follows_the_tests() -> None:
    assert isolation.PAGE.read_text() == isolation.page(), "run python -m tests.hook.isolation"


def test_each_trial_has_a_test_that_exists_and_its_state() -> None:
    letters = [*(each[0] for each in isolation.TRIALS), *(each[0] for each in isolation.HONEST)]
    assert letters == [f"E{n}" for n in range(1, 15)] + ["H1", "H2", "H3", "H4", "H6"]
    for _, test in isolation.TRIALS:
        source(test)
    for _, _, state, test in isolation.HONEST:
        failing = "xfail" in source(test)
        assert state.startswith("open") == failing, f"{test}: the state says otherwise"


def source(test: str) -> str:
    """Return a test's decorators and first line, or a program of the hook's."""
    path, _, function = test.partition("::")
    text = (ROOT / path).read_text()
    if not function:
        return text
    before, found, _ = text.partition(f"def {function}(")
    assert found, test
    return before.rpartition("\n\n\n")[2]


def test_the_page_names_existing_tests_and_each_way_out_once() -> None:
    for module, function in re.findall(r"`(\w+\.py)::(\w+)`", isolation.page()):
        assert f"def {function}(" in (ROOT / "tests" / "hook" / "escapes" / module).read_text()
    ways = [each.way for each in isolation.escapes()] + [
        way for way, _ in (*isolation.OPEN, *isolation.DECLARED)
    ]
    assert len(set(ways)) == len(ways) > 20
    assert not any("|" in way or "\n" in way for way in ways)
