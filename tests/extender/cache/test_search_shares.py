"""Namespaces have their time to search nodes each for itself, and all of them together."""

from collections.abc import Callable

from extender.cache.search_time import SearchShares
from tests.extender.verbs.search_clock import SearchClock


def searching(clock: SearchClock) -> Callable[[str], float]:
    """Return a question of a namespace that searches for as long as it may, a second at most."""
    shares = SearchShares(clock)

    def search(namespace: str) -> float:
        seconds = min(1.0, shares.left(namespace))
        clock.seconds += seconds
        shares.use(namespace, seconds)
        return seconds

    return search


def test_odd_pods_of_many_namespaces_leave_the_scheduler_time() -> None:
    """A tenant may make namespaces: each had ten seconds of its own, one after another."""
    clock = SearchClock()
    search = searching(clock)
    found = [search(f"greedy{number}") for number in range(100)]
    assert found[:20] == [1.0] * 20
    assert sum(found) < 28
    assert 0.02 <= found[-1] < 0.03
    assert 0.02 <= search("modest") < 0.03
    clock.seconds += 10
    assert search("modest") == 1.0


def test_odd_pods_by_the_thousand_leave_the_scheduler_time() -> None:
    """Each had 20 ms, however many there were: 5000 took 100 s, again and again."""
    search = searching(SearchClock())
    assert sum(search("greedy") for _ in range(5000)) < 13
    assert search("modest") == 1.0


def test_odd_pods_by_the_thousand_of_many_namespaces_leave_time() -> None:
    """Each namespace had ten seconds of its own for them, in parts of 20 ms."""
    search = searching(SearchClock())
    assert sum(search(f"greedy{number % 40}") for number in range(20_000)) < 100
    assert 0.02 <= search("modest") < 0.03
