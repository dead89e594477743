"""The explanation of a pod: tables for people, plain values for programs.

The JSON follows the schema `explain.json` beside the other schemas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpustack.cli.output import quota_table
from gpustack.cli.output.cards_cell import cards_cell
from gpustack.model.cluster.cluster import Cluster, Tenant
from gpustack.model.explain import alternatives, explanation
from gpustack.model.explain.alternatives import Alternative
from gpustack.model.placement import Placement
from gpustack.model.refusal import Reason, Refusal
from gpustack.wire import explanations

_Rows = list[Sequence[object]]
_MOST_NAMED: Final = 3  # nodes of one reason; `-o json` has all
NOTHING_ASKED: Final = explanation.Explanation(answers={})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExplanation:
    """A pod's answer.

    Attributes:
        pod: ``namespace/name``.
        namespace: the pod's.
        cluster: the cluster of the snapshot.
        held: its node and cards, when it holds cards already.
        standing: why it is there; None where its node isn't in the snapshot.
        waiting: why it waits, for a pod that holds none.
        notes: oddities of the pod itself.
    """

    pod: str
    namespace: str
    cluster: Cluster
    held: Tenant | None = None
    standing: alternatives.Standing | None = None
    waiting: explanation.Explanation = NOTHING_ASKED
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """True when the pod holds cards or some node has them."""
        return self.held is not None or self.waiting.fits


def tables(answer: PodExplanation) -> list[_Rows]:
    """Return notes, changes that help, the nodes' answers, alternatives, and the quota."""
    several = [_notes(answer), _changes(answer), _nodes(answer)]
    if answer.standing is not None:
        several.append(_alternatives(answer.standing.alternatives))
    several.append(quota_table.rows(answer.cluster, [answer.namespace]))
    return [rows for rows in several if rows]


def as_json(answer: PodExplanation) -> dict[str, Any]:
    """Return the same as plain values."""
    if answer.held is not None:
        held = answer.held.placement
        return explanations.running(answer.pod, answer.cluster, held, answer.standing, answer.notes)
    return explanations.waiting(answer.pod, answer.cluster, answer.waiting, answer.notes)


def _answers(answer: PodExplanation) -> Mapping[str, Placement | Refusal]:
    if answer.held is None:
        return answer.waiting.answers
    return {} if answer.standing is None else answer.standing.refusals


def _notes(answer: PodExplanation) -> _Rows:
    trouble = None if answer.standing is None else answer.standing.trouble
    lines = list(answer.notes)
    if trouble is not None:
        lines.append(f"its decision does not hold today: {_told(trouble)}")
    return [("NOTE",), *((line,) for line in lines)] if lines else []


def _told(refusal: Refusal) -> str:
    return f"{refusal.reason}: {refusal.detail or refusal.message}"


def _nodes(answer: PodExplanation) -> _Rows:
    table: _Rows = [("NODE", "ANSWER", "CARDS")]
    if answer.held is not None:
        table.append((answer.held.placement.node, "holds", cards_cell(answer.held.placement)))
    refusals: dict[Reason, dict[str, Refusal]] = {}
    for node, each in _answers(answer).items():
        if isinstance(each, Placement):
            first = " (first choice)" if node == answer.waiting.choice else ""
            table.append((node, f"fits{first}", cards_cell(each)))
        else:
            refusals.setdefault(each.reason, {})[node] = each
    table.extend(map(_group, sorted(refusals.values(), key=len, reverse=True)))
    return table if len(table) > 1 else []


def _group(alike: Mapping[str, Refusal]) -> Sequence[object]:
    """Return one row for the nodes of one reason: of several, with the words of the first."""
    names, first = list(alike), next(iter(alike.values()))
    rest = len(names) - _MOST_NAMED
    title = ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return title, _told(first), _reasons(first) if len(names) == 1 else "-"


def _reasons(refusal: Refusal) -> str:
    """Return the cards by the first reason that rules each out: `NoWholeCard 0,2`."""
    by_reason: dict[str, list[str]] = {}
    for card in refusal.cards:
        by_reason.setdefault(str(card.reason), []).append(str(card.minor))
    return "; ".join(f"{why} {','.join(minors)}" for why, minors in by_reason.items()) or "-"


def _changes(answer: PodExplanation) -> _Rows:
    if answer.fits or not answer.waiting.answers:
        return []
    table: _Rows = [("WOULD FIT IF", "NODE", "CARDS")]
    if not answer.waiting.changes:
        table.append(("no single change is enough", "-", "-"))
    for each in answer.waiting.changes:
        doubt = "" if each.smallest else " (a smaller set may exist: the search was cut off)"
        table.append((each.text + doubt, each.placement.node, cards_cell(each.placement)))
    return table


def _alternatives(alternatives: Sequence[Alternative]) -> _Rows:
    if not alternatives:
        return []
    table: _Rows = [("ALTERNATIVE", "CARDS", "IS", "BECAUSE OF", "HERE", "THERE")]
    table.extend(
        (
            each.placement.node,
            cards_cell(each.placement),
            each.verdict,
            each.criterion or "-",
            each.chosen or "-",
            each.other or "-",
        )
        for each in alternatives
    )
    return table
