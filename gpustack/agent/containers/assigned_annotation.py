"""The annotations of a pod with verified cards: `gpu-assigned`, and its actual cards."""

from gpustack.agent.cluster.pods import Pod
from gpustack.agent.cluster.writes import PodWrites
from gpustack.agent.containers.allocation_records import PodRecord
from gpustack.wire.annotations import encode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.pods import is_static


class AssignedAnnotation:
    """Queues the annotations of verified pods; a caller doesn't wait for the write."""

    def __init__(self, *, keys: Keys, writes: PodWrites) -> None:
        self._keys = keys
        self._writes = writes

    def queue(self, record: PodRecord, pod: Pod | None) -> None:
        """Queue the annotations of one pod; the time of the decision stays what it was.

        No node may write a decision about its static pods (docs/operations.md).
        """
        if is_static(pod or {}):
            return
        self._writes.annotate(
            uid=record.uid,
            namespace=record.namespace,
            name=record.name,
            annotations=encode_decision(
                self._keys, record.placement, record.decided_ns, assigned=True
            ),
        )
