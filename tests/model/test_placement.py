"""What many placed pods take of one node's cards, added up."""

from hypothesis import given as drawn
from hypothesis import strategies as st

from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import (
    ContainerPlacement,
    Placement,
    apply,
    given,
    holds,
    release,
    sidecars_before,
    takes,
)
from gpustack.model.request import ContainerKind
from gpustack.model.use import IDLE, Use
from tests.model import machines
from tests.model.counted import Counted

PODS = 100


def test_the_pods_of_a_node_cost_no_look_at_all_its_cards_each() -> None:
    """A node that says it has 256 cards held the extender's lock for 18 ms with 1000 pods."""
    cards = Counted(machines.card(at, uuid=f"GPU-{at}") for at in range(4))
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


def share(kind: ContainerKind, index: int, minor: int = 0, cores: int = 1) -> ContainerPlacement:
    return ContainerPlacement(
        name=f"{kind.value}-{index}",
        kind=kind,
        index=index,
        minors=(minor,),
        uuids=(f"GPU-{minor}",),
        cores=cores,
        memory_units=cores,
    )


def test_each_of_a_pods_containers_is_looked_at_once() -> None:
    """24 pods of 32 sidecars and 32 init containers held the extender's lock for 46 ms."""
    node = Node(name="n", cards=(machines.card(0, uuid="GPU-0"),))
    sidecars = [share(ContainerKind.SIDECAR, at) for at in range(32)]
    inits = [share(ContainerKind.INIT, 32 + at) for at in range(32)]
    containers = Counted((*sidecars, *inits))
    before = containers.looks
    found = holds(node, Placement(node="n", containers=containers))
    assert found == {0: Use(cores=33, memory_units=33)}
    assert containers.looks - before == 1


CONTAINERS = st.lists(
    st.tuples(st.sampled_from(ContainerKind), st.integers(0, 2), st.integers(1, 3)), max_size=6
)


@drawn(CONTAINERS)
def test_a_pod_holds_of_each_card_what_its_largest_moment_takes(
    drawn_containers: list[tuple[ContainerKind, int, int]],
) -> None:
    # Card 0 is at minor 1 by now: its containers take both.
    node = Node(name="n", cards=tuple(machines.card(at + 1, uuid=f"GPU-{at}") for at in range(3)))
    containers = tuple(
        share(kind, at, minor, cores) for at, (kind, minor, cores) in enumerate(drawn_containers)
    )
    inits = [each for each in containers if each.kind is ContainerKind.INIT]
    moments = [[each for each in containers if each not in inits]]
    moments += [[each, *sidecars_before(containers, each.index)] for each in inits]
    largest: dict[int, Use] = {}
    for moment in moments:
        sums: dict[int, Use] = {}
        for each in moment:
            for card, use in takes(node, each).items():
                sums[card] = sums.get(card, IDLE) + use
        for card, use in sums.items():
            largest[card] = largest.get(card, IDLE) | use
    assert holds(node, Placement(node="n", containers=containers)) == largest
