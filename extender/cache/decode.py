"""From the API server's bytes to what the cache keeps."""

import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from extender.cache.pods import PodState, read_pod
from gpustack.model.cluster.eligibility import OPEN, Host
from gpustack.model.node import Node
from gpustack.wire import nodes, violations
from gpustack.wire.annotations import BadAnnotation
from gpustack.wire.keys import Keys
from gpustack.wire.kube import api_objects
from gpustack.wire.kube.eligibility import agent_silent, parse_host

logger = logging.getLogger(__name__)

_MOST: Final = 512  # labels of a node, and taints; most nodes have some dozen


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node without what pods take of its cards, at one ``resourceVersion``.

    Attributes:
        node: its cards.
        version: ``resourceVersion`` as a number, to tell older news from newer.
        host: what it says to pods.
        violations: what its agent says of its containers, as it was written.
    """

    node: Node
    version: int
    host: Host = OPEN
    violations: str = ""


class Decoder:
    """Reads pods and nodes under one domain's names."""

    def __init__(self, keys: Keys, labels: nodes.NodeLabels = nodes.LABELS) -> None:
        self._keys = keys
        self._labels = labels

    def pod(self, raw: bytes | msgspec.Raw) -> PodState:
        """Read a pod as the API server sends it.

        Raises:
            BadObject: it isn't one.
        """
        return read_pod(self._keys, api_objects.decode_pod(raw))

    def node(self, raw: bytes | msgspec.Raw) -> NodeState:
        """Read a node; one that can't be read counts as a node without cards.

        Raises:
            BadObject: it isn't a node.
        """
        value = api_objects.decode_node(raw)
        version = int(value["metadata"]["resourceVersion"])
        node = self._cards(value)
        return NodeState(
            node=node,
            version=version,
            host=_bounded(parse_host(value, silent=agent_silent(self._keys, value, node))),
            violations=violations.text_of(self._keys, value),
        )

    def _cards(self, value: Mapping[str, Any]) -> Node:
        try:
            return nodes.decode_node(self._keys, value, self._labels)
        except BadAnnotation as error:
            name = value["metadata"]["name"]
            logger.warning("node is taken for one without cards node=%s error=%s", name, error)
            return Node(name=name)


def _bounded(host: Host) -> Host:
    """Return what is kept of what a node says to pods: its words for people, which decide nothing.

    A node has room for 110 000 labels of its own choice, and they would take 10 MB. Of too many
    taints the last ones are kept: those of its conditions are there.
    """
    if max(len(host.labels), len(host.taints)) <= _MOST:
        return host
    labels = dict(itertools.islice(host.labels.items(), _MOST))
    return replace(host, labels=labels, taints=host.taints[-_MOST:])
