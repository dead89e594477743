"""The kubelet's turns: it admits and starts pods, rejects them, and notes their end."""

import functools
from typing import Final

from gpustack.wire.pods import finished
from tests.agent.host import CORE
from tests.agent.stateful.node import Node
from tests.agent.stateful.truth import Truth
from tests.agent.stateful.workloads import Phase, Workload
from tests.fakes.kubelet import AdmissionError, ConnectionLost, TooFewDevices, UnhealthyDevices

_RELIST_SECONDS: Final = 2.0  # after its start it writes that it has rejected pods


class KubeletTurns:
    """What the node's kubelet does with its pods, and systemd with a dead agent.

    Attributes:
        started: how many containers have started.
        away: whether nobody starts a dead agent again.
    """

    def __init__(self, node: Node, truth: Truth) -> None:
        self.node = node
        self.truth = truth
        self.started = 0
        self.away = False

    def revive(self) -> None:
        if not self.away:
            self.node.start_agent()
            self.node.register()

    def admit(self, found: Workload, memory_first: bool) -> None:
        self.revive()
        node = self.node
        if not node.is_registered:
            self.reject(found, "the plugins aren't registered")
            return
        try:
            with node.step("admission"):
                node.kubelet.admit(found.pod, memory_first=memory_first)
        except (ConnectionLost, UnhealthyDevices, TooFewDevices) as error:
            self.reject(found, repr(error))
        except AdmissionError as error:
            dead = "the agent died" if node.agent is None else ""
            if not (dead or found.excuse or self.truth.is_crowded(found)):
                self.truth.wrong.append(
                    f"{found.name} {found.uid} {found.minors} was refused: {error}"
                )
            self.reject(found, dead or str(error))
        else:
            found.phase = Phase.ADMITTED

    def start(self, found: Workload) -> None:
        """Start its containers in order; a refused one is tried again at the next event."""
        self.revive()
        node = self.node
        for name in found.order:
            if name in found.running:
                continue
            if not node.is_registered:
                return
            try:
                with node.step("start of a container"):
                    answer = node.kubelet.start_container(found.pod, name, CORE)
            except (AdmissionError, ConnectionLost):
                return
            self.started += 1
            devices = [each.host_path for each in answer.devices][:1]
            if devices != [f"/dev/nvidia{found.card_of(name)}"]:
                self.truth.wrong.append(f"{found.name}/{name} {found.uid} runs on {devices}")
            running = node.cri.run(
                found.uid, name, pod=found.name, annotations=dict(answer.annotations)
            )
            if name.startswith("i"):
                node.cri.exit(running)
            else:
                found.running[name] = running
        found.phase = Phase.STARTED
        self.truth.count_room()

    def reject(self, found: Workload, why: str) -> None:
        found.excuse = found.excuse or why
        found.phase, found.was_rejected = Phase.ENDED, True
        self.node.kubelet.reject(found.pod)
        self.fail(found)

    def fail(self, found: Workload) -> None:
        """Let the kubelet write that it has rejected the pod, unless it has admitted it since."""
        if found.was_rejected and self.node.api.find(found.mirror) is not None:
            self.node.api.edit(found.mirror, {"status": {"phase": "Failed"}})

    def exit(self, found: Workload) -> None:
        for container in found.running.values():
            self.node.cri.exit(container)
        found.running.clear()
        found.phase = Phase.ENDED
        if found.uid in self.node.kubelet.known:
            self.node.kubelet.remove(found.pod)

    def gone(self, found: Workload) -> None:
        self.exit(found)
        if self.node.api.find(found.mirror) is not None:
            self.node.api.delete(found.mirror)

    def relist(self, early: int) -> None:
        """The kubelet goes through its pods in the order of their creation."""
        for each in filter(self.truth.waits_for_a_kubelet, self.truth.workloads):
            each.phase, each.was_rejected = Phase.WAITING, False
            self.node.kubelet.known.pop(each.uid, None)
            self.node.api.edit(each.mirror, {"status": {"phase": "Pending"}})
        rejected = []
        for at, each in enumerate(self.truth.present):
            runs = each.phase is Phase.STARTED
            if at < early and not runs:
                self.node.kubelet.reject(each.pod)
                each.excuse, each.phase = "the plugins weren't registered", Phase.ENDED
                each.was_rejected = True
                rejected.append(each)
            elif runs or each.phase is Phase.ADMITTED:
                self.node.kubelet.know(each.pod)
        self.revive()
        for each in self.truth.present:
            if each.phase is Phase.ADMITTED:
                self.admit(each, memory_first=False)
        clock = self.node.clock
        for each in rejected:
            clock.at(clock.seconds + _RELIST_SECONDS, functools.partial(self.fail, each))

    def note_failures(self) -> None:
        """Let the kubelet end pods that the agent has failed."""
        for each in self.truth.present:
            shown = self.node.api.find(each.mirror)
            is_over = shown is not None and finished(shown) and not each.shape.is_static
            if shown is not None and is_over:
                status = shown["status"]
                if not each.excuse:
                    self.truth.wrong.append(f"{each.name} {each.uid} was failed: {status}")
                self.exit(each)
