"""Nodes that answer alike: the same hardware and the same uses, whatever they are called.

An answer found on one of them is every such node's, with its own name and its cards' UUIDs.
"""

from gpustack.model.node import Node
from gpustack.model.placement import ContainerPlacement, Placement


def hardware(node: Node) -> object:
    """Return what `place` looks at of a node beside its uses, when no UUIDs are asked for."""
    cards = tuple(
        (card.minor, card.model, card.memory_bytes, card.numa, card.healthy) for card in node.cards
    )
    return cards, node.links, node.paths


def moved(node: Node, placement: Placement) -> Placement:
    """Return a like node's placement as this node's: its name and its cards' UUIDs."""
    if placement.node == node.name:
        return placement
    uuids = {card.minor: card.uuid for card in node.cards}
    return Placement(
        node=node.name,
        containers=tuple(
            ContainerPlacement(
                name=each.name,
                kind=each.kind,
                index=each.index,
                minors=each.minors,
                uuids=tuple(uuids[minor] for minor in each.minors),
                cores=each.cores,
                memory_units=each.memory_units,
            )
            for each in placement.containers
        ),
        gap=placement.gap,
    )
