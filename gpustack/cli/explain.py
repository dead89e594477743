"""``gpustack explain POD``: what the model says of a pod on every node, as things stand."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpustack.cli import options, printing
from gpustack.cli.source import Snapshot, SourceError
from gpustack.model.explanation import Refusal
from gpustack.model.placement import Placement, place
from gpustack.wire.annotations import Keys
from gpustack.wire.nodes import decode_node
from gpustack.wire.pods import holding, parse_request, usage


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
        SourceError: no such pod, or it asks for no GPU.
        BadRequest: its limits don't exist; names the field.
        BadAnnotation: a node describes no machine.
    """
    pod = _find(snapshot, name)
    full = "{namespace}/{name}".format_map(pod["metadata"])
    request = parse_request(keys, pod)
    if request is None:
        raise SourceError(f"pod {full} asks for no GPU: no limit names {keys.vcuda_core}")
    held = holding(keys, pod)
    if held is not None:
        return Explanation(pod=full, held=held.decision.placement, answers={})
    nodes = (usage(keys, decode_node(keys, each), snapshot.pods) for each in snapshot.nodes)
    return Explanation(pod=full, held=None, answers={n.name: place(n, request) for n in nodes})


def _find(snapshot: Snapshot, name: str) -> Mapping[str, Any]:
    namespace, slash, short = name.rpartition("/")
    wanted = (namespace if slash else "default", short)
    for pod in snapshot.pods:
        metadata = pod["metadata"]
        if (metadata.get("namespace", "default"), metadata.get("name")) == wanted:
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
