"""Pods that come without a decision: whether they get cards here, and how they are refused.

They have bypassed the scheduler, and with it quota and pool, which a node doesn't know.
"""

import logging
from collections.abc import Callable
from typing import Final

from gpustack.adapters.deviceplugin import PluginRefusal
from gpustack.adapters.kube import ObjectEvent
from gpustack.agent.cluster.pods import Pod, name_of, uid_of
from gpustack.agent.cluster.writes import PodWrites
from gpustack.model.placement import Placement
from gpustack.wire.annotations import annotations_of, encode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.pods import MIRROR, is_static, static_uid

logger = logging.getLogger(__name__)

_CODE: Final = "Undecided"
_UNDECIDED: Final = (
    "no scheduler extender has chosen its cards, and this node does not know which quota and pool"
    " apply; leave spec.nodeName out, and have it scheduled by the kube-scheduler that asks the"
    " extender. If no quota and no pool applies to it, set place_undecided: true in agent.yml"
    " (Ansible: gpustack_agent_place_undecided)"
)
_STATIC: Final = (
    "a static pod gets no cards without a decision, which no scheduler makes for it; have it made"
    " by a DaemonSet"
)
_UNNAMED: Final = (
    "a static pod whose file sets metadata.uid gets no cards, because the API server doesn't show"
    " that UID; leave it out"
)


class UndecidedPods:
    """Refuses pods; a static pod's refusal stands in an Event on its mirror, too.

    Args:
        place: whether pods without a decision get free cards; static pods never do.
        tell: takes an Event.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        writes: PodWrites,
        place: bool,
        tell: Callable[[ObjectEvent], None],
    ) -> None:
        self._keys = keys
        self._writes = writes
        self._place = place
        self._tell = tell

    def check(self, pod: Pod, *, is_decided: bool) -> None:
        """Let a pod pass that may have cards.

        Raises:
            PluginRefusal: `Undecided`.
        """
        if is_static(pod):
            if not static_uid(pod):
                self._refuse_static(pod, _UNNAMED)
            if not is_decided:
                self._refuse_static(pod, _STATIC)
        elif not is_decided and not self._place:
            raise _refusal(pod, _UNDECIDED)

    def annotate(self, pod: Pod, placement: Placement, decided_ns: int) -> None:
        """Write the cards that a pod got here on it."""
        namespace, name = name_of(pod)
        logger.info("pod without a decision placed here pod=%s/%s", namespace, name)
        self._writes.annotate(
            uid=uid_of(pod),
            namespace=namespace,
            name=name,
            annotations=encode_decision(self._keys, placement, decided_ns),
        )

    def _refuse_static(self, pod: Pod, why: str) -> None:
        refusal = _refusal(pod, why)
        namespace, name = name_of(pod)
        self._tell(
            ObjectEvent(
                namespace=namespace,
                name=name,
                # As the kubelet's Events: by this one `kubectl describe` looks for a mirror's.
                uid=annotations_of(pod)[MIRROR],
                reason=_CODE,
                message=why,
                warning=True,
            )
        )
        raise refusal


def _refusal(pod: Pod, why: str) -> PluginRefusal:
    return PluginRefusal(_CODE, f"pod {'/'.join(name_of(pod))}: {why}")
