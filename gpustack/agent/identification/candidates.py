"""An Allocate call, the pods that wait, and the containers that it may mean."""

import dataclasses

from gpustack.agent.cluster.pods import Pod, uid_of
from gpustack.agent.identification.pod_matching import Match, Resource
from gpustack.model.request import PodRequest


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AllocateCall:
    """An Allocate of `count` IDs by the kubelet `epoch`; `until` bounds the wait for its answer."""

    resource: Resource
    count: int
    epoch: int
    until: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A pod with a container that doesn't run yet and asks for as many IDs as the call has."""

    pod: Pod
    request: PodRequest
    running: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Every container that a call may mean, and whether the kubelet narrowed them down."""

    matches: tuple[Match, ...]
    kubelet_answers: bool

    def is_sure(self, passed: frozenset[str]) -> bool:
        """Say whether the call means a visible pod: neither a past one nor the next of its name."""
        return any(
            not each.may_be_another and uid_of(each.pod) not in passed for each in self.matches
        )

    def is_clear(self, passed: frozenset[str]) -> bool:
        """Say whether this is final; without the kubelet's answer, several pods may wait."""
        stay = [
            each for each in self.matches if not each.is_leaving and uid_of(each.pod) not in passed
        ]
        clear = len(self.matches) == 1 or len(stay) == 1 or not self.kubelet_answers
        return bool(self.matches) and clear
