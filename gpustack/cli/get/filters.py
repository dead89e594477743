"""What is listed, and what is left out: the options of ``gpustack get``."""

from collections.abc import Iterable
from dataclasses import dataclass

from gpustack.cli.get.label_selector import LabelSelector
from gpustack.model.cluster.cluster import Cluster
from gpustack.model.model_name import model_matches
from gpustack.model.node import Node
from gpustack.wire.files.snapshots import Snapshot
from gpustack.wire.keys import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions that must all be met; an empty one is met by everything.

    Attributes:
        namespace: of pods, and of the pods that hold cards.
        node: its name.
        pool: of nodes, and of what is on them.
        model: as a quota names it.
        selector: of the labels of pods, or of nodes for nodes and cards.
        states: of pods.
    """

    namespace: str = ""
    node: str = ""
    pool: str = ""
    model: str = ""
    selector: LabelSelector = ()
    states: frozenset[str] = frozenset()

    def takes_node(self, node: Node) -> bool:
        """Say whether a node's name and pool are asked for."""
        return self.node in {"", node.name} and self.pool in {"", node.pool}

    def takes_a_model(self, models: Iterable[str]) -> bool:
        """Say whether one of these models is asked for."""
        return not self.model or any(model_matches(self.model, each) for each in models)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a list is made of."""

    keys: Keys
    snapshot: Snapshot
    cluster: Cluster
    filters: Filters
