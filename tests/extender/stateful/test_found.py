"""What the search has found, each as the shortest story that shows it."""

import pytest

from tests.extender.stateful.machine import Cluster


@pytest.mark.parametrize("calls_before", range(4))
def test_a_node_whose_read_failed_is_read_before_the_next_decision_about_it(
    calls_before: int,
) -> None:
    """Its pods had been read, and that counted as having read all; a card had failed meanwhile."""
    cluster = Cluster()
    cluster.create((40, 100), limited=False, more="")
    cluster.change_node("n1", 0, "sick")
    cluster.change_node("n2", 0, "sick")
    ask = [("predicates", 0, 0, 0)]
    cluster.schedule(ask, [(calls_before, False, "silent", "deliver", 0)])
    cluster.schedule(ask, [])
    cluster.nothing_was_given_twice()
    assert cluster.truth.decisions
