"""What many placed pods take of one node's cards, added up."""

from collections.abc import Iterator

from gpustack.model.node import Card, Node
from gpustack.model.place import place
from gpustack.model.placement import Placement, apply, given, release
from gpustack.model.use import Use
from tests.model import machines

PODS = 100


class CountedCards(tuple[Card, ...]):
    """Cards that count how often all of them are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Card]:
        self.looks += 1
        return super().__iter__()


def test_the_pods_of_a_node_cost_no_look_at_all_its_cards_each() -> None:
    """A node that says it has 256 cards held the extender's lock for 18 ms with 1000 pods."""
    cards = CountedCards(machines.card(at, uuid=f"GPU-{at}") for at in range(4))
    node = Node(name="n", cards=cards)
    placement = place(node, machines.pod((1, 1)))
    assert isinstance(placement, Placement)
    before = cards.looks
    taken = apply(node, *[placement] * PODS)
    amounts = [given(node, placement) for _ in range(PODS)]
    assert cards.looks - before < PODS // 10
    assert taken.uses[0] == Use(cores=PODS, memory_units=PODS)
    assert amounts[0] == amounts[-1] == {0: Use(cores=1, memory_units=1)}


def test_a_nodes_new_cards_are_found_in_place_of_its_old_ones() -> None:
    old = Node(name="n", cards=(machines.card(0, uuid="a"), machines.card(1, uuid="b")))
    placement = place(old, machines.pod((100, 0)))
    assert isinstance(placement, Placement)
    moved = Node(name="n", cards=(machines.card(3, uuid="c"), machines.card(4, uuid="a")))
    taken = apply(moved, placement)
    assert [use.idle for use in taken.uses] == [True, False]
    assert release(taken, placement) == moved
