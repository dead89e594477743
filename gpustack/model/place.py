"""The answer: which cards of a node a pod gets, or why none.

A pod is placed as a whole. Its containers are tried one after another, the demanding ones first,
each on its best cards; where that leaves a later container without any, the earlier choice is
taken back and the next best one tried, so a refusal means that no choice fits.

- A share needs room on one card, whole cards must be wholly free; which of several choices is
  better is the policy's answer (`policies`), `exact` by default.
- An ordinary init container uses the pod's own cards, and others only when it needs more cards
  than the pod has: first the ones that `inherited_minors` names.
"""

from gpustack.model.node import Node
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT, Policy
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import PodRequest
from gpustack.model.search.backtracking import Accepts, Attempt


def place(
    node: Node, request: PodRequest, policy: Policy = EXACT, *, accepts: Accepts | None = None
) -> Placement | Refusal:
    """Find cards on `node` for every container of a pod, or say why there are none.

    With `accepts`, the first placement that it says yes to; a refusal then says nothing of why.
    """
    request = policy.read(request)
    if not node.cards:
        return Refusal(reason=Reason.NO_CARDS, detail=f"node {node.name} has no cards")
    return Attempt(node, request, policy, accepts).answer()
