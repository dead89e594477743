"""Namespaces have their time to search nodes each for itself, and all of them together."""

from extender.cache.search_time import SearchShares
from tests.extender.verbs.search_clock import SearchClock


def test_odd_pods_of_many_namespaces_leave_the_scheduler_time() -> None:
    """A tenant may make namespaces: each had ten seconds of its own, one after another."""
    clock = SearchClock()
    shares = SearchShares(clock)

    def search(namespace: str) -> float:
        seconds = min(1.0, shares.left(namespace))
        clock.seconds += seconds
        shares.use(namespace, seconds)
        return seconds

    found = [search(f"greedy{number}") for number in range(100)]
    assert found[:20] == [1.0] * 20
    assert sum(found) < 28
    assert 0.02 <= found[-1] < 0.03
    assert 0.02 <= search("modest") < 0.03
    clock.seconds += 10
    assert search("modest") == 1.0
