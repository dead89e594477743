"""Who waits in a queue of many owners, and what it drops."""

import threading

from gpustack.adapters.kube.fair_queue import FairQueue


def taken(queue: FairQueue[str], count: int) -> list[str | None]:
    return [queue.get() for _ in range(count)]


def test_owners_have_turns_and_each_gets_its_items_in_order() -> None:
    queue: FairQueue[str] = FairQueue(10)
    for item in ("a1", "a2", "a3", "b1", "b2", "c1"):
        assert queue.put(item[0], item)
    assert taken(queue, 6) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_where_it_is_full_who_has_the_most_loses_the_newest() -> None:
    queue: FairQueue[str] = FairQueue(3)
    for item in ("a1", "a2", "a3"):
        assert queue.put("a", item)
    assert not queue.put("b", "b1")
    assert not queue.put("a", "a4")
    assert taken(queue, 3) == ["a1", "b1", "a2"]


def test_of_owners_of_one_item_each_some_lose_theirs() -> None:
    queue: FairQueue[str] = FairQueue(3)
    assert [queue.put(owner, owner) for owner in "abcde"] == [True] * 3 + [False] * 2
    assert len(set(taken(queue, 3))) == 3


def test_a_closed_queue_lets_its_reader_go() -> None:
    queue: FairQueue[str] = FairQueue(3)
    got: list[str | None] = []
    reader = threading.Thread(target=lambda: got.append(queue.get()))
    reader.start()
    queue.close()
    reader.join(timeout=10)
    assert got == [None]
