"""The equivalence cache: which states differ, which share an answer, how much is remembered."""

import threading
from dataclasses import replace

import pytest

from gpustack.model import equivalence
from gpustack.model.equivalence import EquivalenceCache, NodeStates, ResultTable, moved
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT
from gpustack.model.refusal import Refusal
from gpustack.model.request import PodRequest, Selector
from gpustack.model.use import Use
from tests.model.machines import card, pod

HALF = pod((50, 8))


def host(name: str, **first: object) -> Node:
    """A node of two cards; `first` changes the first one."""
    cards = tuple(card(minor, uuid=f"{name}-{minor}") for minor in range(2))
    return Node(name=name, cards=(replace(cards[0], **first), cards[1]))  # type: ignore[arg-type]


def state(states: NodeStates, node: Node) -> int:
    return states.state(states.hardware(node), node)


def table() -> ResultTable:
    return EquivalenceCache(EXACT, place).table(HALF)


def test_names_and_uuids_do_not_tell_nodes_apart() -> None:
    states = NodeStates()
    first = state(states, host("a"))
    assert state(states, host("b")) == first
    assert state(states, host("c", numa=1)) != first
    taken = host("d").with_uses((Use(cores=10, memory_units=1), Use()))
    assert state(states, taken) != first


def test_a_number_never_means_two_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later states push earlier ones out of the memory; their numbers stay apart."""
    monkeypatch.setattr(equivalence, "_MOST_STATE_BYTES", 10_000)
    states, given = NodeStates(), []
    for cores in range(1, 100):
        node = host("a").with_uses((Use(cores=cores, memory_units=1), Use()))
        given.append(state(states, node))
        assert states._bytes <= 10_000
    assert len(set(given)) == len(given)


def test_a_remembered_placement_is_moved_by_name_and_uuid() -> None:
    known = table()
    known.ask(0, host("a"))
    like = known.ask(0, host("b")).like
    assert like is not None
    assert moved(host("b"), HALF, like) == place(host("b"), HALF)


def test_equal_answers_of_different_states_are_one() -> None:
    known = table()
    assert known.ask(0, host("a")) is known.ask(1, host("b", bus="other"))


class Arrivals:
    """A lock that counts the threads that have come to it."""

    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.arrived.release()
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


def test_the_second_thread_waits_for_the_answer_of_the_first() -> None:
    lock, both_came, searches = Arrivals(), threading.Event(), []

    def search(node: Node, request: PodRequest) -> Placement | Refusal:
        searches.append(node.name)
        assert both_came.wait(10)
        return place(node, request)

    known = EquivalenceCache(EXACT, search, lambda: lock).table(HALF)
    threads = [threading.Thread(target=known.ask, args=(0, host("a"))) for _ in range(2)]
    for each in threads:
        each.start()
    assert all(lock.arrived.acquire(timeout=10) for _ in threads)
    both_came.set()
    for each in threads:
        each.join()
    assert searches == ["a"]


def test_states_that_no_node_is_in_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence, "_SPARE", 5)
    cache = EquivalenceCache(EXACT, place)
    known = cache.table(HALF)
    for number in range(100):
        answer = known.ask(number, host("a"))
        cache.count(known, {number, number + 1})
        assert len(known.by_state) <= 2 * 2 + 5
        assert known.by_state[number] is answer
    assert known.size_bytes == cache.size_bytes


def test_tables_of_many_requests_stay_within_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence, "_MOST_BYTES", 20_000)
    cache = EquivalenceCache(EXACT, place)
    for cores in range(1, 100):
        known = cache.table(pod((cores, 8)))
        known.ask(0, host("a"))
        assert known.has_grown
        cache.count(known, {0})
        assert cache.table(pod((cores, 8))) is known
        assert cache.size_bytes <= 20_000
    assert cache.table(pod((1, 8))).by_state == {}


def test_the_names_that_a_user_asks_for_count_as_memory() -> None:
    """On a cluster of few nodes the names are most of the memory that a question takes."""
    cache = EquivalenceCache(EXACT, place)
    names = tuple(f"model-{number:02}-{'x' * 50}" for number in range(64))
    cache.table(HALF)
    before = cache.size_bytes
    cache.table(replace(HALF, models=Selector(include=names)))
    assert cache.size_bytes - before > sum(map(len, names))
