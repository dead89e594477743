"""Which pod holds which cards of which node, and each node as the model wants to see it.

A change of one pod costs the arithmetic on its node's cards; a change of a node's cards a recount
of that node's pods; other nodes cost nothing. Every node has a version that changes whenever its
answer to some pod could, and the number of its state, by which answers are remembered.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from gpustack.model.equivalence import NodeStates
from gpustack.model.node import Node
from gpustack.model.placement import Placement, apply, release

_NOBODY: Mapping[str, Placement] = MappingProxyType({})
_CHANGED: Final = -1  # in place of the number of a state, until it is asked for


class Allocations:
    """Not locked: its owner is.

    Attributes:
        freed: cards may have become free since it was cleared.
        version: grows with every change of a node.
        versions: the version of each node.
    """

    def __init__(self) -> None:
        self.freed = False
        self.version = 0
        self.versions: dict[str, int] = {}
        self._bases: dict[str, Node] = {}
        self._held: dict[str, Placement] = {}
        self._by_node: dict[str, dict[str, Placement]] = {}
        self._current: dict[str, Node] = {}
        self._states: dict[str, int] = {}
        self._spelt = 0  # how many of the names in `_states` lie side by side
        self._hardware: dict[str, int] = {}
        self._numbers = NodeStates()

    @property
    def node_names(self) -> frozenset[str]:
        """The nodes that are known."""
        return frozenset(self._bases)

    @property
    def lost_nodes(self) -> frozenset[str]:
        """The nodes that aren't known, though pods hold cards there."""
        return frozenset(self._by_node.keys() - self._bases.keys())

    def base(self, name: str) -> Node | None:
        """Return a node without what the pods take of it."""
        return self._bases.get(name)

    @property
    def states(self) -> Mapping[str, int]:
        """The number of each node's state as far as it is known; see `state`."""
        if self._spelt != len(self._states):
            # A question looks all names up, at a time when other programs have filled the caches:
            # names that lie where each node was read cost twice as much as names side by side.
            spelt = [name.encode("utf-8", "surrogatepass") for name in self._states]
            copies = [str(each, "utf-8", "surrogatepass") for each in spelt]
            self._states = dict(zip(copies, self._states.values(), strict=True))
            self._spelt = len(copies)
        return self._states

    def state(self, name: str) -> int:
        """Return the number of a known node's state."""
        state = self._states[name]
        node = self.node(name) if state == _CHANGED else None
        if node is not None:
            if name not in self._hardware:
                self._hardware[name] = self._numbers.hardware(node)
            state = self._states[name] = self._numbers.state(self._hardware[name], node)
        return state

    def number(self, node: Node) -> int:
        """Return the number of the state of a node whose uses may be others than those counted."""
        return self._numbers.state(self._numbers.hardware(node), node)

    def set_node(self, base: Node) -> bool:
        """Learn of a node, without what pods take of it; returns whether that is news."""
        if self._bases.get(base.name) == base:
            return False
        self._bases[base.name] = base
        self._current.pop(base.name, None)
        self._hardware.pop(base.name, None)
        self._touch(base.name)
        self.freed = True  # cards came, came back or changed: cheaper to ask than to compare
        return True

    def drop_node(self, name: str) -> None:
        """Forget a node; what its pods hold is remembered in case it returns."""
        self.version += 1
        for known in (self._bases, self._current, self._hardware, self._states, self.versions):
            known.pop(name, None)
        self._spelt = min(self._spelt, len(self._states))

    def take(self, uid: str, placement: Placement) -> bool:
        """Count a pod's cards, instead of those it held; returns whether that is news."""
        if self._held.get(uid) == placement:
            return False
        self.give_back(uid)
        self._held[uid] = placement
        self._by_node.setdefault(placement.node, {})[uid] = placement
        known = self._current.get(placement.node)
        if known is not None:
            self._current[placement.node] = apply(known, placement)
        self._touch(placement.node)
        return True

    def give_back(self, uid: str) -> None:
        """Free what a pod holds, if anything."""
        placement = self._held.pop(uid, None)
        if placement is None:
            return
        pods = self._by_node[placement.node]
        del pods[uid]
        if not pods:
            del self._by_node[placement.node]
        known = self._current.get(placement.node)
        if known is not None:
            self._current[placement.node] = release(known, placement)
        self._touch(placement.node)
        self.freed = True

    def placement(self, uid: str) -> Placement | None:
        """Return what a pod holds."""
        return self._held.get(uid)

    def holders(self, name: str) -> Mapping[str, Placement]:
        """Return what each pod holds of a node, by UID."""
        return self._by_node.get(name, _NOBODY)

    def node(self, name: str) -> Node | None:
        """Return a node with its uses; None when the node isn't known."""
        if name not in self._current:
            base = self._bases.get(name)
            if base is None:
                return None
            self._current[name] = apply(base, *self.holders(name).values())
        return self._current[name]

    def node_without(self, name: str, uids: Collection[str]) -> Node | None:
        """Return a node as if these pods held nothing of it."""
        node = self.node(name)
        if node is None:
            return None
        holders = self.holders(name)
        for uid in uids:
            if uid in holders:
                node = release(node, holders[uid])
        return node

    def _touch(self, name: str) -> None:
        if name not in self._bases:
            return
        self.version += 1
        self.versions[name] = self.version
        self._states[name] = _CHANGED
