"""Input files that several commands share: a pod, a trace. Errors name file and place."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

from gpustack.model.cluster.eligibility import Demands
from gpustack.model.cluster.replay import Arrival
from gpustack.model.node import Node
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire.files.source import SourceError, text_of, title
from gpustack.wire.files.trace import parse_trace
from gpustack.wire.keys import Keys
from gpustack.wire.kube.eligibility import parse_demands
from gpustack.wire.kube.pod_templates import PodTemplate, parse_pod_templates
from gpustack.wire.pods import container_names, parse_request


def names(text: str) -> list[str]:
    """Read the names of a list, `a,b`.

    Raises:
        argparse.ArgumentTypeError: a name is empty.
    """
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME,NAME")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPod:
    """The pod of a file.

    Attributes:
        namespace: where it would run.
        name: its own, or that of the object around it.
        request: the cards that it asks for.
        demands: its demands on nodes.
        containers: the names of `spec.containers`, in order.
    """

    namespace: str
    name: str
    request: PodRequest
    demands: Demands
    containers: tuple[str, ...]


def pod(keys: Keys, path: str) -> AskedPod:
    """Return the one pod of a file that asks for a GPU.

    Raises:
        SourceError: none does, several do, or one asks an impossible amount; names the field.
        BadDocument, BadPodTemplate: there is no pod in it.
    """
    found = [
        (each, request)
        for each in parse_pod_templates(title(path), text_of(path))
        if (request := _request(keys, each)) is not None
    ]
    if not found:
        field = "spec.containers[].resources.limits"
        raise SourceError(f"{title(path)}: {field}: asks for no GPU; set {keys.vcuda_core}")
    if len(found) > 1:
        titles = ", ".join(each.title for each, _ in found[:4])
        raise SourceError(f"{title(path)}: {len(found)} pods ask for a GPU ({titles}); leave one")
    workload, request = found[0]
    metadata = workload.pod["metadata"]
    try:
        demands = parse_demands(workload.pod)
    except BadRequest as error:
        raise _bad(workload, error) from error
    return AskedPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        request=request,
        demands=demands,
        containers=container_names(workload.pod),
    )


def _request(keys: Keys, workload: PodTemplate) -> PodRequest | None:
    try:
        return parse_request(keys, workload.pod)
    except BadRequest as error:
        raise _bad(workload, error) from error


def _bad(workload: PodTemplate, error: BadRequest) -> SourceError:
    place = workload.place(error.field)
    return SourceError(f"{place}{error.message.removeprefix(error.field)}")


def trace(path: str, nodes: Iterable[Node]) -> tuple[Arrival, ...]:
    """Return a trace; where it doesn't name memory, a share is one of the smallest card.

    Raises:
        SourceError: the file can't be read.
        BadTrace: it can't be played.
    """
    sizes = [card.memory_units for node in nodes for card in node.cards]
    return parse_trace(title(path), text_of(path), card_memory_units=min(sizes, default=1))
