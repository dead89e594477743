"""How many pods must end at least: bounds that spare the search what can't help.

A set of pods that is as small as the bound is known to be the smallest without trying others.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil

from gpustack.model.cluster.cluster import Tenant
from gpustack.model.model_name import model_matches
from gpustack.model.node import Node
from gpustack.model.placement import holds
from gpustack.model.quota.quota import Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.request import ContainerRequest, PodRequest
from gpustack.model.search.demand import usable
from gpustack.model.use import IDLE, Use


class Takers:
    """What the pods of one node hold of each of its cards."""

    def __init__(self, node: Node, request: PodRequest, tenants: Iterable[Tenant]) -> None:
        """Look at the cards of `node` that could serve `request` at all."""
        self._node = node
        self._running = request.running
        self._usable = usable(node, request)
        self._uses: dict[int, list[Use]] = {index: [] for index in self._usable}
        self._parts: dict[int, Fraction] = dict.fromkeys(self._usable, Fraction())
        for tenant in tenants:
            held = holds(node, tenant.placement)
            for index in held.keys() & self._uses.keys():
                self._uses[index].append(held[index])
                self._parts[index] += Fraction(1, len(held))

    def least(self) -> int | None:
        """Return a number of pods below which no set makes room; None where none does.

        Each container is looked at alone, and what init containers need beyond the others not at
        all, so the bound may be low, but it is never high.
        """
        bounds = [self._wholes(sum(each.whole_cards for each in self._running))]
        bounds.extend(self._share(each) for each in self._running if each.is_share)
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None

    def _wholes(self, count: int) -> int | None:
        """Bound the pods to end before `count` cards are idle.

        A pod on m cards counts as one m-th on each, so a set of cards is never emptied by fewer
        pods than its parts sum up to.
        """
        parts = sorted(self._parts[index] for index in self._usable if self._can_be_idle(index))
        return ceil(sum(parts[:count], Fraction())) if len(parts) >= count else None

    def _can_be_idle(self, index: int) -> bool:
        return self._node.uses[index] == sum(self._uses[index], IDLE)

    def _share(self, container: ContainerRequest) -> int | None:
        found = (self._share_on(container, index) for index in self._usable)
        return min((each for each in found if each is not None), default=None)

    def _share_on(self, container: ContainerRequest, index: int) -> int | None:
        missing = self._node.uses[index] + container.share - self._node.cards[index].whole
        held = self._uses[index]
        cores = fewest([each.cores for each in held], missing.cores)
        memory = fewest([each.memory_units for each in held], missing.memory_units)
        return None if cores is None or memory is None else max(cores, memory)


def of_quota(
    quota: Quota, usage: Usage, namespace: str, request: PodRequest, node: Node
) -> int | None:
    """Return how many of the namespace's pods must end at least before `node` may be used.

    None where no end helps. Only names that all of the node's usable cards match are looked at.
    """
    limit = quota.of(namespace)
    models = {node.cards[index].model for index in usable(node, request)}
    if limit is None or not models:
        return 0
    needed = sum(each.cores for each in request.running)
    most = 0
    for name, allowed in limit.cards.items():
        if all(model_matches(name, model) for model in models):
            missing = usage.used(namespace, name) + needed - allowed
            parts = [part for _, _, part in usage.holders(namespace, name)] if missing > 0 else []
            found = fewest(parts, missing)
            if found is None:
                return None
            most = max(most, found)
    return most


def fewest(parts: Sequence[int], missing: int) -> int | None:
    """Return how many of `parts` sum up to `missing` at least; None where all are too few."""
    sums = accumulate(sorted(parts, reverse=True), initial=0)
    return next((count for count, total in enumerate(sums) if total >= missing), None)
