"""The pod that the scheduler asks about, as we know it ourselves."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from extender.apiserver.writer import PodWriter
from extender.cache.cache import ClusterCache
from extender.cache.pods import PodState
from extender.errors import CannotDecide, Gone
from extender.quota.quotas import Quotas
from extender.verbs.deadline import Deadline
from gpustack.adapters import kube
from gpustack.wire.extender_v1 import PodName

FindPod = Callable[[PodName, Deadline], PodState]
"""Returns the pod of a request; raises CannotDecide where it, or what it may have, is unknown."""


@dataclass
class PodLookup:
    """Finds pods by what a request says of them.

    A request's pod is only a name: an old scheduler drops fields that it doesn't know, and they
    may be what decides.
    """

    cache: ClusterCache
    writer: PodWriter
    quotas: Quotas

    def find(self, name: PodName, deadline: Deadline) -> PodState:
        """Return the pod; one that no watch has shown yet is read once.

        Raises:
            CannotDecide: it is gone, the API server doesn't answer in time, or what its
                namespace may hold is unknown.
        """
        pod = self.cache.pod(name.uid) or self.read(name, deadline)
        if pod.ours:
            self.quotas.refuse_unknown()
        deadline.begin(pod.namespace)
        return pod

    def read(self, name: PodName, deadline: Deadline) -> PodState:
        """Return the pod as the API server has it now.

        Raises:
            CannotDecide: it is gone, or the API server doesn't answer in time.
        """
        found = self.writer.read(name, timeout_seconds=deadline.left())
        # Another pod of the name counts, too: another instance may have given it cards already.
        there = None if found is None else self.cache.add_pod(found)
        if there is None or there.uid != name.uid:
            self.cache.remove_pod(name.uid)
            raise Gone(f"{name.namespace}/{name.name}", name.uid)
        return there

    def settled(self, pod: PodState, deadline: Deadline) -> PodState:
        """Return the pod once no earlier write about it can come about any more.

        A write whose answer was lost may be carried out late. Other cards must not be chosen before
        that is out of the question, or both choices might be taken; a change of the pod ends it,
        because the write names the version.

        Raises:
            CannotDecide: the pod is gone, or couldn't be changed.
        """
        if not self.cache.is_doubtful(pod.uid):
            return pod
        try:
            after = self.writer.touch(pod, timeout_seconds=deadline.left())
        except (kube.KubeError, kube.KubeUnavailable) as error:
            if isinstance(error, kube.KubeError) and error.not_found:
                self.cache.remove_pod(pod.uid)
                raise Gone(pod.full_name, pod.uid) from error
            raise CannotDecide("WriteFailed", f"pod {pod.full_name}: {error}") from error
        return self.cache.add_pod(after) or after

    def change(self, pod: PodState, deadline: Deadline) -> None:
        """Give the pod another version; where that fails, whoever writes about it learns why."""
        with contextlib.suppress(kube.KubeError, kube.KubeUnavailable):
            self.cache.add_pod(self.writer.touch(pod, timeout_seconds=deadline.left()))
