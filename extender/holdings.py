"""Who holds which cards of which node, and each node as the model wants to see it.

A change of one pod or node costs that node's next question a recount of that node's pods, and no
other node anything.
"""

from gpustack.model.device import Node
from gpustack.model.placement import Placement, apply


class Holdings:
    """Not locked: its owner is."""

    def __init__(self) -> None:
        self.freed = False
        self._bases: dict[str, Node] = {}
        self._held: dict[str, Placement] = {}
        self._by_node: dict[str, dict[str, Placement]] = {}
        self._current: dict[str, Node] = {}

    @property
    def node_names(self) -> frozenset[str]:
        """The nodes that are known."""
        return frozenset(self._bases)

    def set_node(self, base: Node) -> None:
        """Learn of a node, with nothing taken of its cards."""
        known = self._bases.get(base.name)
        if known == base:
            return
        self._bases[base.name] = base
        self._current.pop(base.name, None)
        self.freed = True  # cards came, came back or changed: cheaper to ask than to compare

    def drop_node(self, name: str) -> None:
        """Forget a node; what its pods hold is remembered in case it returns."""
        self._bases.pop(name, None)
        self._current.pop(name, None)

    def take(self, uid: str, placement: Placement) -> None:
        """Count a pod's cards, instead of those it held."""
        if self._held.get(uid) == placement:
            return
        self.give_back(uid)
        self._held[uid] = placement
        self._by_node.setdefault(placement.node, {})[uid] = placement
        self._current.pop(placement.node, None)

    def give_back(self, uid: str) -> None:
        """Free what a pod holds, if anything."""
        placement = self._held.pop(uid, None)
        if placement is None:
            return
        pods = self._by_node[placement.node]
        del pods[uid]
        if not pods:
            del self._by_node[placement.node]
        self._current.pop(placement.node, None)
        self.freed = True

    def placement(self, uid: str) -> Placement | None:
        """Return what a pod holds."""
        return self._held.get(uid)

    def node(self, name: str, *, without: str = "") -> Node | None:
        """Return a node with its uses, as if the pod ``without`` held nothing of it.

        None when the node isn't known.
        """
        holders = self._by_node.get(name, {})
        if without in holders:
            return self._counted(name, without)
        if name not in self._current:
            counted = self._counted(name, "")
            if counted is None:
                return None
            self._current[name] = counted
        return self._current[name]

    def _counted(self, name: str, without: str) -> Node | None:
        node = self._bases.get(name)
        if node is None:
            return None
        for uid, placement in self._by_node.get(name, {}).items():
            if uid != without:
                node = apply(node, placement)
        return node
