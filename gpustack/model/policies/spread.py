"""`spread`: the emptiest node and the emptiest card, whatever the pod says."""

from dataclasses import dataclass
from typing import ClassVar

from gpustack.model.policies.base import Policy, with_strategy
from gpustack.model.request import PodRequest, Strategy


@dataclass(frozen=True, slots=True)
class Spread(Policy):
    """As if every pod asked to be spread over nodes and over cards."""

    name: ClassVar[str] = "spread"

    def read(self, request: PodRequest) -> PodRequest:
        """Return the pod with both strategies replaced."""
        return with_strategy(request, Strategy.SPREAD)
