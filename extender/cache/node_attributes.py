"""What the nodes say to pods beside their cards: labels, taints, cordons.

No decision needs it, for the scheduler hands us the nodes that are left. An explanation of why a
pod waits does: a node with room that a taint bars is no advice.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from extender.cache.decode import NodeState
from gpustack.model.cluster.eligibility import Host


class NodeAttributes:
    """Fed by the watch of the nodes; read by any thread. Each change is one store."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def sync(self, nodes: Sequence[NodeState]) -> None:
        """Replace all."""
        self._hosts = {each.node.name: each.host for each in nodes}

    def event(self, kind: str, state: NodeState) -> None:
        """Take one change of a node."""
        if kind == "DELETED":
            self._hosts.pop(state.node.name, None)
        else:
            self._hosts[state.node.name] = state.host

    @property
    def now(self) -> Mapping[str, Host]:
        """All of them at this moment, by node."""
        return MappingProxyType(self._hosts.copy())
