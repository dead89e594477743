"""What every namespace holds, by model: kept up to date pod by pod.

Amounts are hundredths of a card. What counts is what placements hold: a pod counts from the moment
it is reserved, on the model of the very cards it got, and an ordinary init container adds only what
it holds beyond the pod's containers. A node's word frees nothing: a pod runs on though its node has
gone, or names a card no more. Such a card counts on the model that it had when the pod was counted
last, and where that is unknown on every model: too much counts then, and never too little. A pod
that waits to be bound (`Claim`) counts of each model name of the quota what it takes at most.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpustack.model.model_name import label_safe_model, model_matches
from gpustack.model.node import Card, Node
from gpustack.model.placement import Placement, given, models_of
from gpustack.model.quota.claim import Claim

_UNKNOWN: Final = "*"  # a model that nobody knows; no label-safe name has this character


CardName = tuple[int, str]
"""A card's minor and UUID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What one pod holds: hundredths of a card by label-safe model, and its cards' models.

    Attributes:
        claimed: of a pod that waits to be bound: hundredths by the quota's names of models.
    """

    name: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[CardName, str] = field(default_factory=dict)
    claimed: Mapping[str, int] = field(default_factory=dict)

    def of(self, pattern: str) -> int:
        """Return the hundredths of the models that a name means."""
        return matching(self.amounts, pattern) + self.claimed.get(pattern, 0)


@dataclass(slots=True)
class _Namespace:
    """One namespace's pods by UID, their sum, and the largest by model name, when asked for.

    Once it is ``shared``, a change is made to a copy.
    """

    totals: Counter[str] = field(default_factory=Counter)
    claimed: Counter[str] = field(default_factory=Counter)
    pods: dict[str, _Held] = field(default_factory=dict)
    largest: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)
    shared: bool = False


class Usage:
    """What every namespace holds, kept up to date pod by pod.

    The model's one value that changes, for a decision among ten thousand pods must not cost more
    than the change since the last one: `put` and `drop` cost the pod, `used` the models of one
    namespace. Where a node's cards change, its pods are put again.
    """

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self._where: dict[str, str] = {}
        self._only = ""  # the namespace of a part (`of`), whose pods stand in no ``_where``

    def put(
        self,
        uid: str,
        namespace: str,
        name: str,
        node: Node,
        placement: Placement,
        *,
        before: "Usage | None" = None,
    ) -> None:
        """Count what a pod holds on its node, in place of what it held before.

        A node that isn't known is one without cards. `before` knows the models of lost cards.
        """
        known = (before or self)._models(namespace, uid)
        self.drop(uid)
        models = {
            card: _UNKNOWN if model is None else label_safe_model(model)
            for card, model in models_of(node, placement).items()
        }
        lost = {card: known.get(card, _UNKNOWN) for card in models if models[card] == _UNKNOWN}
        models |= lost
        whole = _with_lost(node, lost) if lost else node
        held = _Held(name=name, amounts=amounts(whole, placement), models=models)
        found = self._changing(namespace)
        found.totals.update(held.amounts)
        found.pods[uid] = held
        self._where[uid] = namespace

    def claim(self, claim: Claim, patterns: Iterable[str]) -> None:
        """Count what a pod will hold at most, by each of these names of models."""
        self.drop(claim.uid)
        amounts = claim.amounts
        claimed = {
            each: max((matching(amount, each) for amount in amounts), default=0)
            for each in patterns
        }
        found = self._changing(claim.namespace)
        found.claimed.update(claimed)
        found.pods[claim.uid] = _Held(name=claim.name, claimed=claimed)
        self._where[claim.uid] = claim.namespace

    def is_claim(self, namespace: str, uid: str) -> bool:
        """Say whether a pod that is counted waits to be bound."""
        found = self._namespaces.get(namespace)
        return found is not None and uid in found.pods and bool(found.pods[uid].claimed)

    def _models(self, namespace: str, uid: str) -> Mapping[CardName, str]:
        """Return the models of the cards that a pod was counted with."""
        found = self._namespaces.get(namespace)
        held = None if found is None else found.pods.get(uid)
        return {} if held is None else held.models

    def drop(self, uid: str) -> None:
        """Forget a pod; one that isn't counted is passed over."""
        namespace = self._where.pop(uid, self._only)
        if namespace not in self._namespaces or uid not in self._namespaces[namespace].pods:
            return
        found = self._changing(namespace)
        held = found.pods.pop(uid)
        found.claimed.subtract(held.claimed)
        for model, cores in held.amounts.items():
            found.totals[model] -= cores
            if not found.totals[model]:  # a node may rename its cards again and again
                del found.totals[model]
        if not found.pods:
            del self._namespaces[namespace]

    def of(self, namespace: str) -> "Usage":
        """Return what one namespace holds now; it is copied when one of both changes."""
        part = Usage()
        part._only = namespace
        found = self._namespaces.get(namespace)
        if found is not None:
            found.shared = True
            part._namespaces[namespace] = found
        return part

    def _changing(self, namespace: str) -> _Namespace:
        """Return a namespace to be changed; its largest pods are forgotten."""
        found = self._namespaces.setdefault(namespace, _Namespace())
        if found.shared:
            found = _Namespace(found.totals.copy(), found.claimed.copy(), found.pods.copy())
            self._namespaces[namespace] = found
        found.largest.clear()
        return found

    def used(self, namespace: str, pattern: str, *, without: Collection[str] = ()) -> int:
        """Return the hundredths held of the models that `pattern` means.

        `without` names pods (UIDs) that are not to be counted.
        """
        found = self._namespaces.get(namespace)
        if found is None:
            return 0
        left_out = sum(found.pods[uid].of(pattern) for uid in set(without) if uid in found.pods)
        return matching(found.totals, pattern) + found.claimed[pattern] - left_out

    def holders(
        self, namespace: str, pattern: str, *, without: Collection[str] = ()
    ) -> Sequence[tuple[str, str, int]]:
        """Return (UID, name, hundredths) of the pods that hold such models, the largest first."""
        found = self._namespaces.get(namespace)
        if found is None:
            return []
        if pattern not in found.largest:
            parts = ((uid, held.name, held.of(pattern)) for uid, held in found.pods.items())
            holding = (each for each in parts if each[2] > 0)
            found.largest[pattern] = sorted(holding, key=lambda each: (-each[2], each[1]))
        ranked = found.largest[pattern]
        return [each for each in ranked if each[0] not in without] if without else ranked


def amounts(node: Node, placement: Placement) -> Mapping[str, int]:
    """Return what a pod was given: hundredths of a card by label-safe model."""
    found: Counter[str] = Counter()
    for index, use in given(node, placement).items():
        model = node.cards[index].model
        found[model if model == _UNKNOWN else label_safe_model(model)] += use.cores
    return found


def matching(held: Mapping[str, int], pattern: str) -> int:
    """Return the hundredths of all models that `pattern` means."""
    return sum(
        cores for model, cores in held.items() if model == _UNKNOWN or model_matches(pattern, model)
    )


def _with_lost(node: Node, lost: Mapping[CardName, str]) -> Node:
    """Return a node with the cards that it names no more; only their models matter."""
    cards = {
        minor: Card(minor=minor, uuid=uuid, model=model, memory_bytes=0)
        for (minor, uuid), model in sorted(lost.items())
    }
    cards |= {card.minor: card for card in node.cards}
    return Node(name=node.name, cards=tuple(cards[minor] for minor in sorted(cards)))
