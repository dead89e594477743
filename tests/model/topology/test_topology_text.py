"""The four texts: the original's `/graph`, the blog's cost tree, a matrix, a plain tree."""

import dataclasses

from gpustack.model.node import Node
from gpustack.model.topology import card_tree, tree_text
from gpustack.model.topology.tree_text import CardLoad
from gpustack.model.use import Use
from tests.model.machines import WHOLE, card, grouped, node

MIB = 1 << 20

COSTS = """\
ROOT:7:0
|--PHB:7:0
|  |--PIX:3:0
|  |  |--GPU0:1:1
|  |  |--GPU1:1:1
|  |  |--GPU2:1:1
|  |--PIX:4:0
|  |  |--GPU3:1:2
|  |  |--GPU4:1:2
|  |  |--GPU5:1:2
|  |  |--GPU6:1:2
"""


def test_the_blogs_machine_gives_the_blogs_cost_tree() -> None:
    machine = node(7, grouped(3, 4))
    assert tree_text.costs(machine, card_tree.of(machine)) == COSTS


def test_taken_cards_are_not_available_and_the_emptier_group_is_dearer() -> None:
    taken = {3: Use(cores=30, memory_units=4), 4: WHOLE}
    machine = node(7, grouped(3, 4), taken)
    lines = tree_text.costs(machine, card_tree.of(machine)).splitlines()
    assert lines[:3] == ["ROOT:5:0", "|--PHB:5:0", "|  |--PIX:2:0"]
    assert lines[3:5] == ["|  |  |--GPU3:0:1", "|  |  |--GPU4:0:1"]
    assert lines[7:9] == ["|  |--PIX:3:0", "|  |  |--GPU0:1:2"]


def test_cards_of_a_group_stand_by_their_minors_whatever_is_taken_of_them() -> None:
    machine = node(4, grouped(3, 1), {1: WHOLE, 2: Use(cores=10, memory_units=1)})
    lines = tree_text.graph(machine, card_tree.of(machine)).splitlines()
    assert [line.split(" (")[0] for line in lines] == [
        "ROOT:2",
        "|---PHB",
        "|   |---GPU3",
        "|   |---PIX",
        "|   |   |---GPU0",
        "|   |   |---GPU1",
        "|   |   |---GPU2",
    ]
    costs = tree_text.costs(machine, card_tree.of(machine)).splitlines()
    assert costs[4:] == ["|  |  |--GPU0:1:2", "|  |  |--GPU1:0:2", "|  |  |--GPU2:0:2"]


def test_shares_without_a_core_left_show_the_memory_that_is_left() -> None:
    cards = tuple(
        dataclasses.replace(card(minor), memory_bytes=64 * 256 * MIB + 5) for minor in (0, 1)
    )
    uses = (Use(cores=100, memory_units=60), WHOLE)
    machine = Node(name="n", cards=cards, links=grouped(2), uses=uses)
    lines = tree_text.graph(machine, card_tree.of(machine)).splitlines()
    assert lines[2].endswith(f"allocatableCores: 0, allocatableMemory: {4 * 256 * MIB + 5})")
    assert lines[3].endswith("allocatableCores: 0, allocatableMemory: 0)")


GRAPH = """\
ROOT:7
|---PHB (aval: 7, pids: [], usedMemory: 0, totalMemory: 7, allocatableCores: 0, allocatableMemory: 0)
|   |---PIX (aval: 3, pids: [], usedMemory: 0, totalMemory: 3, allocatableCores: 0, allocatableMemory: 0)
|   |   |---GPU0 (pids: [], usedMemory: 0, totalMemory: 1, allocatableCores: 100, allocatableMemory: 1)
|   |   |---GPU1 (pids: [], usedMemory: 0, totalMemory: 1, allocatableCores: 100, allocatableMemory: 1)
|   |   |---GPU2 (pids: [], usedMemory: 0, totalMemory: 1, allocatableCores: 100, allocatableMemory: 1)
|   |---PIX (aval: 4, pids: [], usedMemory: 0, totalMemory: 4, allocatableCores: 0, allocatableMemory: 0)
|   |   |---GPU3 (pids: [], usedMemory: 0, totalMemory: 1, allocatableCores: 100, allocatableMemory: 1)
|   |   |---GPU4 (pids: [], usedMemory: 0, totalMemory: 1, allocatableCores: 100, allocatableMemory: 1)
|   |   |---GPU5 (pids: [], usedMemory: 0, totalMemory: 1, allocatableCores: 100, allocatableMemory: 1)
|   |   |---GPU6 (pids: [], usedMemory: 0, totalMemory: 1, allocatableCores: 100, allocatableMemory: 1)
"""  # noqa: E501  # the original's lines are as long


def test_the_blogs_machine_gives_exactly_the_originals_graph() -> None:
    cards = tuple(dataclasses.replace(card(minor), memory_bytes=1) for minor in range(7))
    machine = Node(name="n", cards=cards, links=grouped(3, 4))
    assert tree_text.graph(machine, card_tree.of(machine)) == GRAPH


def test_a_lone_card_costs_less_than_the_group_beside_it() -> None:
    machine = node(3, grouped(2, 1, across="NODE"))
    assert tree_text.costs(machine, card_tree.of(machine)).splitlines() == [
        "ROOT:3:0",
        "|--NODE:3:0",
        "|  |--GPU2:1:1",
        "|  |--PIX:2:0",
        "|  |  |--GPU0:1:2",
        "|  |  |--GPU1:1:2",
    ]


def test_the_graph_shows_what_the_original_shows() -> None:
    cards = tuple(card(minor, 64) for minor in (0, 1, 4))
    uses = (Use(cores=30, memory_units=4), WHOLE, Use())
    machine = Node(name="n", cards=cards, links=grouped(2, 1, across="NODE"), uses=uses)
    activity = {0: CardLoad(pids=(7, 9), used_bytes=5 * MIB), 1: CardLoad(pids=(11,), used_bytes=1)}
    total, free = 64 * 256 * MIB, 60 * 256 * MIB
    assert tree_text.graph(machine, card_tree.of(machine), activity) == (
        "ROOT:1\n"
        f"|---CPU (aval: 1, pids: [7 9 11], usedMemory: {5 * MIB + 1}, totalMemory: {3 * total}, "
        "allocatableCores: 0, allocatableMemory: 0)\n"
        f"|   |---GPU4 (pids: [], usedMemory: 0, totalMemory: {total}, allocatableCores: 100, "
        f"allocatableMemory: {total})\n"
        f"|   |---PIX (aval: 0, pids: [7 9 11], usedMemory: {5 * MIB + 1}, totalMemory: "
        f"{2 * total}, allocatableCores: 0, allocatableMemory: 0)\n"
        f"|   |   |---GPU0 (pids: [7 9], usedMemory: {5 * MIB}, totalMemory: {total}, "
        f"allocatableCores: 70, allocatableMemory: {free})\n"
        f"|   |   |---GPU1 (pids: [11], usedMemory: 1, totalMemory: {total}, "
        "allocatableCores: 0, allocatableMemory: 0)\n"
    )


def test_an_unhealthy_card_is_not_available() -> None:
    cards = (card(0), card(1, healthy=False))
    machine = Node(name="n", cards=cards, links=grouped(2))
    assert tree_text.graph(machine, card_tree.of(machine)).startswith("ROOT:1\n|---PIX (aval: 1,")


def test_the_matrix_is_laid_out_like_the_tools() -> None:
    cards = (card(0, numa=1), card(10))
    machine = Node(name="n", cards=cards, links=(("X", "NV4"), ("NV4", "X")))
    assert tree_text.matrix(machine) == (
        "\tGPU0\tGPU10\tNUMA Affinity\nGPU0\t X \tNV4\t1\nGPU10\tNV4\t X \tN/A\n"
    )


def test_the_plain_tree_names_cards_and_their_nvlinks() -> None:
    cards = tuple(card(minor, 64, numa=0) for minor in range(4))
    links = [list(row) for row in grouped(2, 2, across="NODE")]
    for a, b in ((0, 2), (0, 3), (1, 3)):
        links[a][b] = links[b][a] = "NV2"
    machine = Node(name="n", cards=cards, links=tuple(tuple(row) for row in links))
    assert tree_text.plain(machine, card_tree.of(machine)) == (
        "4 cards\n"
        "`-- NODE\n"
        "    |-- PIX\n"
        "    |   |-- GPU0  Tesla P40  16384 MiB  NUMA 0  NV2 to 2-3\n"
        "    |   `-- GPU1  Tesla P40  16384 MiB  NUMA 0  NV2 to 3\n"
        "    `-- PIX\n"
        "        |-- GPU2  Tesla P40  16384 MiB  NUMA 0  NV2 to 0\n"
        "        `-- GPU3  Tesla P40  16384 MiB  NUMA 0  NV2 to 0-1\n"
    )


def test_a_host_without_cards_can_be_drawn() -> None:
    empty = Node(name="n")
    assert tree_text.graph(empty, card_tree.of(empty)) == "ROOT:0\n"
    assert tree_text.costs(empty, card_tree.of(empty)) == "ROOT:0:0\n"
    assert tree_text.plain(empty, card_tree.of(empty)) == "0 cards\n"


def test_a_card_of_unknown_size_shows_no_memory() -> None:
    machine = Node(name="n", cards=(dataclasses.replace(card(0), memory_bytes=0, model=""),))
    assert tree_text.plain(machine, card_tree.of(machine)) == "1 card\n`-- GPU0\n"
