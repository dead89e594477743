"""The same question with some cards ruled out: what else would be chosen?"""

from collections.abc import Collection
from dataclasses import replace

from gpustack.model.node import Node
from gpustack.model.request import PodRequest


def avoiding(node: Node, request: PodRequest, indexes: Collection[int]) -> tuple[Node, PodRequest]:
    """Return the question that leaves out the cards at these positions of `node.cards`.

    They are named by their UUIDs, so that they count as present; where one has none, as broken.
    """
    uuids = tuple(node.cards[index].uuid for index in sorted(indexes))
    if all(uuids):
        exclude = (*request.uuids.exclude, *uuids)
        return node, replace(request, uuids=replace(request.uuids, exclude=exclude))
    cards = (
        replace(card, healthy=False) if index in indexes else card
        for index, card in enumerate(node.cards)
    )
    return replace(node, cards=tuple(cards)), request
