"""The answer: which cards of a node a pod gets, or why none.

A pod is placed as a whole. Its containers are tried one after another, the demanding ones first,
each on its best cards; where that leaves a later container without any, the earlier choice is
taken back and the next best one tried, so a refusal means that no choice fits.

- A share needs room on one card, whole cards must be wholly free; which of several choices is
  better is the policy's answer (`policies`), `exact` by default.
- An ordinary init container uses the pod's own cards, and others only when it needs more cards
  than the pod has: first the ones that `inherited_minors` names.
"""

from collections.abc import Callable, Collection
from functools import partial

from gpustack.model.node import Node
from gpustack.model.placement import Placement, Placer
from gpustack.model.policies import EXACT, Policy
from gpustack.model.quota.check import Violation, check, left_of
from gpustack.model.quota.fewer_models import others, rest_in_reach
from gpustack.model.quota.quota import Quota
from gpustack.model.quota.usage import Usage
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


def within(
    quota: Quota,
    usage: Usage,
    namespace: str,
    policy: Policy,
    *,
    without: Collection[str] = (),
    goes_on: Callable[[], bool] = lambda: True,
) -> Placer:
    """Return a placer that keeps to the quota.

    Where the first answer breaks it, `others` are tried on a node with several models, or for a pod
    that may hold less on other cards, as long as it `goes_on`. Each of several containers or cards
    may have to be another one; those placements are searched one by one, until the search's effort
    is spent.
    """

    def answer(node: Node, request: PodRequest) -> Placement | Refusal:
        first = place(node, request, policy)
        broken = problem(node, first) if isinstance(first, Placement) else None
        if broken is None:
            return first
        refusal = Refusal(reason=broken.reason, detail=broken.detail)
        left = left_of(quota, usage, namespace, node, without)
        varies = request.held_varies or len(set(left.kinds.values())) > 1
        if broken.reason is Reason.POOL_FORBIDDEN or not varies:
            return refusal
        rest = rest_in_reach(node, request, left)
        if rest(Placement(node=node.name, containers=())):
            for other in others(node, request, partial(place, policy=policy), left, goes_on):
                if problem(node, other) is None:
                    return other
            if sum(each.card_count for each in request.containers) > 1 and goes_on():
                mixed = place(
                    node,
                    request,
                    policy,
                    accepts=lambda some: problem(node, some) is None and rest(some),
                )
                return mixed if isinstance(mixed, Placement) else refusal
        return refusal

    def problem(node: Node, found: Placement) -> Violation | None:
        return check(quota, usage, namespace, node, found, without=without)

    return answer
