"""The text of a machine says the same in whatever order its cards stand."""

import random

from hypothesis import given

from gpustack.model.node import Node
from gpustack.wire.topo.parser import parse
from tests.model.machines import dice
from tests.model.properties.cases import machines


def text(node: Node, rows: list[int], columns: list[int]) -> str:
    """Return the matrix with its cards in these orders."""
    heading = ["", *(f"GPU{node.cards[at].minor}" for at in columns), "NUMA Affinity"]
    lines = [
        [
            f"GPU{node.cards[row].minor}",
            *(node.link(row, column).token for column in columns),
            "N/A" if node.cards[row].numa is None else str(node.cards[row].numa),
        ]
        for row in rows
    ]
    return "".join("\t".join(line) + "\n" for line in [heading, *lines])


@given(machines(), dice)
def test_the_order_of_rows_and_columns_changes_nothing(node: Node, rolled: random.Random) -> None:
    every = list(range(len(node.cards)))
    rows, columns = (rolled.sample(every, len(every)) for _ in range(2))
    read = parse(text(node, rows, columns).encode())
    assert read == parse(text(node, every, every).encode())
    assert [card.minor for card in read.cards] == [card.minor for card in node.cards]
    assert [card.numa for card in read.cards] == [card.numa for card in node.cards]
    for a in every:
        for b in every:
            assert read.link(a, b) == node.link(a, b)
