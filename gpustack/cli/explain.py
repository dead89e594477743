"""``gpustack explain POD``: what the model says of a pod on every node, as things stand."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpustack.cli import options, printing
from gpustack.cli.source import Snapshot, SourceError
from gpustack.model.explanation import Reason, Refusal
from gpustack.model.placement import Placement, place
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire.annotations import BadAnnotation, Keys
from gpustack.wire.nodes import decode_node
from gpustack.wire.pods import finished, holding, parse_request, usage


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the command line."""
    parser = commands.add_parser("explain", help="why a pod waits, or where it is")
    parser.add_argument("pod", metavar="[NAMESPACE/]POD")
    options.add_reading(parser)
    return parser


def run(chosen: argparse.Namespace) -> int:
    """Print the model's answer for one pod; 1 when no node has room for it."""
    answer = explain(Keys(chosen.domain), options.read(chosen), chosen.pod)
    printing.show(chosen.output, rows(answer), as_json(answer))
    return 0 if answer.fits else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A pod's answer.

    Attributes:
        pod: ``namespace/name``.
        held: where it is, when it holds cards already.
        answers: the model's answer by node, for a pod that holds none.
    """

    pod: str
    held: Placement | None
    answers: Mapping[str, Placement | Refusal]

    @property
    def fits(self) -> bool:
        """True when the pod holds cards or some node has them."""
        return self.held is not None or any(
            isinstance(each, Placement) for each in self.answers.values()
        )


def explain(keys: Keys, snapshot: Snapshot, name: str) -> Explanation:
    """Ask the model about one pod.

    Args:
        keys: names of the domain.
        snapshot: nodes and pods.
        name: ``namespace/name``, or a name in ``default``.

    Raises:
        SourceError: no such pod, it has ended, or it asks for no GPU.
    """
    pod = _find(snapshot, name)
    full = f"{_namespace(pod)}/{pod['metadata']['name']}"
    if finished(pod):
        raise SourceError(f"pod {full} has ended: it holds no card and wants none")
    try:
        request = parse_request(keys, pod)
    except BadRequest as error:
        no = Refusal(reason=Reason.BAD_REQUEST, detail=error.message)
        nodes = (node["metadata"]["name"] for node in snapshot.nodes)
        return Explanation(pod=full, held=None, answers=dict.fromkeys(nodes, no))
    if request is None:
        raise SourceError(f"pod {full} asks for no GPU: no limit names {keys.vcuda_core}")
    held = holding(keys, pod)
    if held is not None:
        return Explanation(pod=full, held=held.decision.placement, answers={})
    answers = {
        node["metadata"]["name"]: _answer(keys, node, snapshot, request) for node in snapshot.nodes
    }
    return Explanation(pod=full, held=None, answers=answers)


def _answer(
    keys: Keys, node: Mapping[str, Any], snapshot: Snapshot, request: PodRequest
) -> Placement | Refusal:
    try:
        cards = decode_node(keys, node)
    except BadAnnotation as error:
        # as the extender takes it: a node without cards
        return Refusal(reason=Reason.NO_CARDS, detail=error.message)
    return place(usage(keys, cards, snapshot.pods), request)


def _namespace(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("namespace") or "default")


def _find(snapshot: Snapshot, name: str) -> Mapping[str, Any]:
    namespace, slash, short = name.rpartition("/")
    wanted = (namespace if slash else "default", short)
    for pod in snapshot.pods:
        if (_namespace(pod), pod["metadata"]["name"]) == wanted:
            return pod
    raise SourceError(f"no pod {wanted[0]}/{wanted[1]}; write NAMESPACE/NAME")


def rows(explanation: Explanation) -> list[Sequence[object]]:
    """Return the table: a line a node."""
    table: list[Sequence[object]] = [("NODE", "ANSWER", "CARDS")]
    if explanation.held is not None:
        return [*table, (explanation.held.node, "holds", _cards(explanation.held))]
    for node, answer in sorted(explanation.answers.items()):
        if isinstance(answer, Placement):
            table.append((node, "fits", _cards(answer)))
        else:
            table.append((node, f"{answer.reason}: {answer.detail or answer.message}", "-"))
    return table


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "pod": explanation.pod,
        "held": None if explanation.held is None else _placement(explanation.held),
        "nodes": {
            node: _placement(answer)
            if isinstance(answer, Placement)
            else {"code": str(answer.reason), "message": answer.detail or answer.message}
            for node, answer in explanation.answers.items()
        },
    }


def _placement(placement: Placement) -> dict[str, Any]:
    return {
        "node": placement.node,
        "containers": [
            {"name": each.name, "minors": list(each.minors), "uuids": list(each.uuids)}
            for each in placement.containers
        ],
    }


def _cards(placement: Placement) -> str:
    return " ".join(
        f"{each.name}={','.join(map(str, each.minors))}" for each in placement.containers
    )
