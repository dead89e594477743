"""A pod's answer, and how it is shown: tables for people, plain values for programs.

The JSON follows the schema `explain.json` beside the other schemas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpustack.cli import quota_views
from gpustack.model import advice, alternatives
from gpustack.model.advice import Change
from gpustack.model.alternatives import Alternative
from gpustack.model.cluster import Cluster, Tenant
from gpustack.model.explanation import Refusal
from gpustack.model.holding import Placement

_Rows = list[Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A pod's answer.

    Attributes:
        pod: ``namespace/name``.
        namespace: the pod's.
        cluster: what was asked.
        held: where it is, when it holds cards already.
        standing: why it is there; None where its node isn't in the snapshot.
        waiting: why it waits, for a pod that holds none.
    """

    pod: str
    namespace: str
    cluster: Cluster
    held: Tenant | None = None
    standing: alternatives.Standing | None = None
    waiting: advice.Explanation | None = None

    @property
    def fits(self) -> bool:
        """True when the pod holds cards or some node has them."""
        return self.waiting is None or self.waiting.fits


def tables(answer: Answer) -> list[_Rows]:
    """Return a table of the nodes' answers, one of changes or alternatives, one of the quota."""
    several = [_nodes(answer)]
    if answer.waiting is not None:
        several.append(_changes(answer.waiting.changes))
    if answer.standing is not None:
        several.append(_alternatives(answer.standing.alternatives))
    several.append(quota_views.rows(answer.cluster, [answer.namespace]))
    return [rows for rows in several if rows]


def as_json(answer: Answer) -> dict[str, Any]:
    """Return the same as plain values."""
    return {
        "pod": answer.pod,
        "fits": answer.fits,
        "held": None if answer.held is None else _placement(answer.held.placement),
        "nodes": {
            node: _placement(each) if isinstance(each, Placement) else _refusal(each)
            for node, each in _answers(answer).items()
        },
        "changes": [_change(each) for each in answer.waiting.changes] if answer.waiting else [],
        "alternatives": (
            [_alternative(each) for each in answer.standing.alternatives] if answer.standing else []
        ),
        "quota": next(iter(quota_views.as_json(answer.cluster, [answer.namespace])), None),
    }


def _answers(answer: Answer) -> dict[str, Placement | Refusal]:
    if answer.waiting is not None:
        return dict(answer.waiting.answers)
    return {} if answer.standing is None else dict(answer.standing.refusals)


def _nodes(answer: Answer) -> _Rows:
    table: _Rows = [("NODE", "ANSWER", "CARDS")]
    if answer.held is not None:
        table.append((answer.held.placement.node, "holds", _cards(answer.held.placement)))
    for node, each in _answers(answer).items():
        if isinstance(each, Placement):
            table.append((node, "fits", _cards(each)))
        else:
            table.append((node, f"{each.reason}: {each.detail or each.message}", _reasons(each)))
    return table


def _reasons(refusal: Refusal) -> str:
    """Return the cards by the first reason that rules each out: `NoWholeCard 0,2`."""
    by_reason: dict[str, list[str]] = {}
    for card in refusal.cards:
        by_reason.setdefault(str(card.reason), []).append(str(card.minor))
    return "; ".join(f"{why} {','.join(minors)}" for why, minors in by_reason.items()) or "-"


def _changes(changes: Sequence[Change]) -> _Rows:
    if not changes:
        return []
    table: _Rows = [("WOULD FIT IF", "NODE", "CARDS")]
    for each in changes:
        doubt = "" if each.smallest else " (a smaller set may exist: the search was cut off)"
        table.append((each.text + doubt, each.placement.node, _cards(each.placement)))
    return table


def _alternatives(alternatives: Sequence[Alternative]) -> _Rows:
    if not alternatives:
        return []
    table: _Rows = [("ALTERNATIVE", "CARDS", "IS", "BECAUSE OF", "HERE", "THERE")]
    table.extend(
        (
            each.placement.node,
            _cards(each.placement),
            each.verdict,
            each.criterion or "-",
            each.chosen or "-",
            each.other or "-",
        )
        for each in alternatives
    )
    return table


def _change(change: Change) -> dict[str, Any]:
    asked = {each.name: each for each in change.request.containers}
    container = asked.get(change.container)
    return {
        "kind": str(change.kind),
        "text": change.text,
        "container": change.container,
        "cores": None if container is None else container.cores,
        "memory_units": None if container is None else container.memory_units,
        "names": list(change.names),
        "count": change.count,
        "smallest": change.smallest,
        "placement": _placement(change.placement),
    }


def _alternative(other: Alternative) -> dict[str, Any]:
    return {
        "placement": _placement(other.placement),
        "verdict": str(other.verdict),
        "criterion": other.criterion,
        "chosen": other.chosen,
        "other": other.other,
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "code": str(refusal.reason),
        "message": refusal.detail or refusal.message,
        "cards": [{"minor": each.minor, "code": str(each.reason)} for each in refusal.cards],
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
