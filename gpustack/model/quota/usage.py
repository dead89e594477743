"""What every namespace holds, by model: kept up to date pod by pod.

Amounts are hundredths of a card. What counts is what placements hold: a pod counts from the moment
it is reserved, on the model of the very cards it got, and an ordinary init container adds only what
it holds beyond the pod's containers.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpustack.model.model_name import label_safe_model, model_matches
from gpustack.model.node import Node
from gpustack.model.placement import Placement, holds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What one pod holds: hundredths of a card by label-safe model."""

    name: str
    amounts: Mapping[str, int]


@dataclass(slots=True)
class _Namespace:
    """One namespace's pods by UID, their sum, and the largest by model name, when asked for.

    Once it is ``shared``, a change is made to a copy.
    """

    totals: Counter[str] = field(default_factory=Counter)
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

    def put(self, uid: str, namespace: str, name: str, node: Node, placement: Placement) -> None:
        """Count what a pod holds on its node, in place of what it held before."""
        self.drop(uid)
        held = _Held(name=name, amounts=amounts(node, placement))
        found = self._changing(namespace)
        found.totals.update(held.amounts)
        found.pods[uid] = held
        self._where[uid] = namespace

    def drop(self, uid: str) -> None:
        """Forget a pod; one that isn't counted is passed over."""
        namespace = self._where.pop(uid, self._only)
        if namespace not in self._namespaces or uid not in self._namespaces[namespace].pods:
            return
        found = self._changing(namespace)
        for model, cores in found.pods.pop(uid).amounts.items():
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
            found = _Namespace(found.totals.copy(), found.pods.copy())
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
        left_out = (found.pods[uid].amounts for uid in set(without) if uid in found.pods)
        return matching(found.totals, pattern) - sum(matching(each, pattern) for each in left_out)

    def holders(
        self, namespace: str, pattern: str, *, without: Collection[str] = ()
    ) -> Sequence[tuple[str, str, int]]:
        """Return (UID, name, hundredths) of the pods that hold such models, the largest first."""
        found = self._namespaces.get(namespace)
        if found is None:
            return []
        if pattern not in found.largest:
            parts = (
                (uid, held.name, matching(held.amounts, pattern))
                for uid, held in found.pods.items()
            )
            holding = (each for each in parts if each[2] > 0)
            found.largest[pattern] = sorted(holding, key=lambda each: (-each[2], each[1]))
        ranked = found.largest[pattern]
        return [each for each in ranked if each[0] not in without] if without else ranked


def amounts(node: Node, placement: Placement) -> Mapping[str, int]:
    """Return what a placement holds: hundredths of a card by label-safe model."""
    found: Counter[str] = Counter()
    for index, use in holds(node, placement).items():
        found[label_safe_model(node.cards[index].model)] += use.cores
    return found


def matching(held: Mapping[str, int], pattern: str) -> int:
    """Return the hundredths of all models that `pattern` means."""
    return sum(cores for model, cores in held.items() if model_matches(pattern, model))
