"""A node may claim 256 cards; a look at them has a bounded cost and a right answer."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpustack.model.lru import LRUCache, remembered
from gpustack.model.node import Card, Node
from gpustack.model.place import place, within
from gpustack.model.placement import ContainerPlacement, Placement, holds
from gpustack.model.policies import EXACT
from gpustack.model.policies.fragmentation import workload_of
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Refusal
from gpustack.model.request import (
    BadRequest,
    ContainerKind,
    ContainerRequest,
    PodRequest,
    Topology,
)
from gpustack.model.search.demand import joins, meets
from gpustack.model.units import MOST_CARDS
from tests.model.machines import card, pod

UNLINKED = Node(
    name="n1",
    cards=tuple(card(minor, numa=(None, 0, 1)[minor % 3]) for minor in range(9)),
)


def asks(cards: int, topology: Topology = Topology.BEST_EFFORT) -> PodRequest:
    container = ContainerRequest(name="main", index=0, cores=100 * cards, memory_units=0)
    return PodRequest(containers=(container,), topology=topology)


@pytest.mark.parametrize("demand", [each for each in Topology if each is not Topology.BEST_EFFORT])
def test_unlinked_cards_are_joined_pair_by_pair_as_they_meet(demand: Topology) -> None:
    found = joins(UNLINKED, demand)
    for one in range(9):
        for other in range(9):
            joined = bool(found[one] >> other & 1)
            assert joined == meets(UNLINKED, demand, one, other)


@pytest.mark.parametrize("count", [1, 8, 100, 256])
def test_the_lowest_of_many_unlinked_cards_are_taken(count: int) -> None:
    node = Node(name="n1", cards=tuple(map(card, range(MOST_CARDS))))
    answer = place(node, asks(count))
    assert isinstance(answer, Placement)
    assert answer.containers[0].minors == tuple(range(count))
    assert answer.gap is None


@pytest.mark.parametrize("cores", [25_700, 10**18, 9 * 10**18])
def test_more_cards_than_a_node_can_have_are_a_bad_request(cores: int) -> None:
    with pytest.raises(BadRequest, match=r"are more than the 256 cards .* use 25600 at most"):
        ContainerRequest(name="main", index=0, cores=cores, memory_units=0)


def test_a_cache_is_as_large_as_its_entries() -> None:
    cache: LRUCache[int, str] = LRUCache(80)
    for number in range(20):
        cache.put(number, f"{number}", 10)
        cache.get(0)
    assert (cache.size_bytes, len(cache), cache.get(0), cache.get(12)) == (80, 8, "0", None)
    cache.put(0, "again", 5)
    assert (cache.size_bytes, cache.get(0)) == (75, "again")
    cache.put(0, "too large to stand beside others", 11)
    assert (cache.size_bytes, cache.get(0)) == (70, None)
    cache.clear()
    assert (cache.size_bytes, len(cache)) == (0, 0)


def test_a_value_that_fails_to_be_made_is_not_kept() -> None:
    cache: LRUCache[int, int] = LRUCache(1000)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_make(1, lambda: 1 // 0, lambda _: 1)
    assert cache.get_or_make(1, lambda: 2, lambda _: 1) == 2
    assert cache.get_or_make(1, lambda: 3, lambda _: 1) == 2


def test_a_function_remembers_as_much_as_fits() -> None:
    calls = []

    @remembered(80, len)
    def doubled(text: str) -> str:
        calls.append(text)
        return text * 2

    for text in ("ab", "ab", "x" * 11, "x" * 11):
        assert doubled(text) == 2 * text
    assert calls == ["ab", "x" * 11, "x" * 11]


def test_many_cards_of_a_container_are_found_as_one_by_one() -> None:
    """By UUID while a card has it, else by minor; a card that is gone holds nothing."""
    node = Node(
        name="n1", cards=tuple(card(at, uuid="" if at % 5 == 0 else f"u{at}") for at in range(40))
    )
    minors = tuple(range(2, 44))
    uuids = tuple("" if at % 7 == 0 else f"u{43 - at}" if at % 3 else f"gone{at}" for at in minors)

    def holding(at: slice) -> ContainerPlacement:
        return ContainerPlacement(
            name="c", index=0, minors=minors[at], uuids=uuids[at], cores=100, memory_units=0
        )

    whole_set = Placement(node="n1", containers=(holding(slice(None)),))
    each = [Placement(node="n1", containers=(holding(slice(at, at + 1)),)) for at in range(42)]
    assert set(holds(node, whole_set)) == {index for one in each for index in holds(node, one)}


class CountedCards(tuple[Card, ...]):
    """Cards that count how often all of them are gone through."""

    rounds = 0

    def __iter__(self) -> Iterator[Card]:
        self.rounds += 1
        return super().__iter__()


def test_a_pods_containers_share_one_walk_over_the_nodes_cards() -> None:
    """Holders of the cluster cache's lock count pods of 64 containers on nodes of 256 cards."""
    cards = CountedCards(map(card, range(MOST_CARDS)))
    node = Node(name="n1", cards=cards)
    kinds = *(ContainerKind.SIDECAR,) * 16, *(ContainerKind.INIT,) * 16, *(ContainerKind.APP,) * 32
    containers = tuple(
        ContainerPlacement(
            name=f"c{at}",
            kind=kind,
            index=at,
            minors=(at,),
            uuids=(cards[at].uuid,),
            cores=1,
            memory_units=1,
        )
        for at, kind in enumerate(kinds)
    )
    cards.rounds = 0
    assert len(holds(node, Placement(node="n1", containers=containers))) == 64
    assert cards.rounds <= 2


def test_only_the_commonest_of_thousands_of_shapes_measure_a_card() -> None:
    asked = [(pod((1 + at % 99, 1 + at)), 1 + (at < 10)) for at in range(3000)]
    shapes = workload_of(asked).shapes
    assert len(shapes) == 256
    assert sum(weight == 2 for _, weight in shapes) == 10


@pytest.mark.parametrize("lie", ["Lie", "NVIDIA A100"])
@pytest.mark.parametrize("models", [1, 3, 4, 248])
@pytest.mark.parametrize("cores", [(50,), (400,), (60, 60), tuple(range(20, 40))])
def test_a_quota_has_a_node_of_many_models_searched_a_few_times(
    cores: tuple[int, ...], models: int, lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The answer to a pod of a limited namespace is found anew at each question.
    names = [f"{lie} {at % models}" for at in range(248)] + ["NVIDIA V100"] * 8
    cards = tuple(card(at, model=name) for at, name in enumerate(names))
    searches = 0

    def counted(*args: Any, **options: Any) -> Placement | Refusal:
        nonlocal searches
        searches += 1
        return place(*args, **options)

    monkeypatch.setattr("gpustack.model.place.place", counted)
    quota = Quota(namespaces={"team": NamespaceQuota(cards={"A100": 100, "V100": 100})})
    asked = pod(*((each, 8) for each in cores))
    within(quota, Usage(), "team", EXACT)(Node(name="n1", cards=cards), asked)
    assert searches <= 6


def test_the_one_model_of_many_that_a_quota_names_is_taken() -> None:
    cards = tuple(card(at, model=f"Bench {at}" if at != 11 else "A100") for at in range(16))
    quota = Quota(namespaces={"team": NamespaceQuota(cards={"A100": 100})})
    answer = within(quota, Usage(), "team", EXACT)(Node(name="n1", cards=cards), pod((50, 8)))
    assert isinstance(answer, Placement)
    assert answer.containers[0].minors == (11,)
