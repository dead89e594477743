"""All that happens on the node: pods come, start, end and are replaced; programs die; cards fail.

Each method is one event, and takes numbers that choose among what there is.
"""

from typing import Final

from gpustack.adapters.nvml import CardFault
from gpustack.wire.pods import finished
from tests.agent.stateful.kubelet_turns import KubeletTurns
from tests.agent.stateful.node import MINORS, Node
from tests.agent.stateful.truth import Truth
from tests.agent.stateful.workloads import (
    SHAPES,
    Phase,
    Workload,
    build,
    choose,
    known_by_kubelet,
)
from tests.fakes.nvml import card

NAMES: Final = ("web-0", "web-1", "a", "b", "c")


class Life:
    """The events.

    Attributes:
        truth: judges them.
        kubelet: does what follows from them.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.truth = Truth(node)
        self.kubelet = KubeletTurns(node, self.truth)
        self._made = 0

    @property
    def _faults(self) -> tuple[CardFault, ...]:
        return self.node.nvml.faults()

    # Pods.

    def create(self, shape: int, name: int, minor: int) -> None:
        """A scheduler binds a pod to this node, with its decision."""
        if len(self.node.api.pods()) == len(NAMES):
            self.remove(name)
        taken = {each["metadata"]["name"] for each in self.node.api.pods()}
        free = [each for each in NAMES if each not in taken]
        asked = SHAPES[shape]
        minors = choose(asked, minor, self.truth.counted())
        if not free or minors is None:
            return
        self._made += 1
        pod, uid = build(asked, free[name % len(free)], self._made, minors)
        mirror = self.node.api.create(pod)
        known = known_by_kubelet(mirror, uid)
        lost = any(fault.uuid in {card(each).uuid for each in minors} for fault in self._faults)
        excuse = "its card was lost" if lost else ""
        self.truth.workloads.append(
            Workload(shape=asked, pod=known, mirror=mirror, minors=minors, excuse=excuse)
        )

    def admit(self, which: int, memory_first: bool) -> None:
        """The kubelet comes to a pod that waits."""
        found = _chosen([each for each in self.truth.present if each.phase is Phase.WAITING], which)
        if found is not None:
            self.kubelet.admit(found, memory_first)

    def start(self, which: int) -> None:
        """The kubelet starts an admitted pod's containers."""
        found = _chosen(
            [each for each in self.truth.present if each.phase is Phase.ADMITTED], which
        )
        if found is not None:
            self.kubelet.start(found)

    def end(self, which: int, how: str, seconds: int) -> None:
        """A pod ends by itself, or is deleted; its containers live on for some seconds."""
        found = _chosen(
            [each for each in self.truth.present if each.phase is not Phase.WAITING], which
        )
        if found is None or self.node.api.find(found.mirror) is None:
            return
        clock = self.node.clock
        if how == "delete":
            self.node.api.edit(
                found.mirror, {"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}
            )
            clock.at(clock.seconds + seconds, lambda: self.kubelet.gone(found))
        elif how == "force":
            found.excuse = "deleted"
            self.node.api.delete(found.mirror)
            clock.at(clock.seconds + seconds, lambda: self.kubelet.exit(found))
        else:
            self.kubelet.exit(found)
            self.node.api.edit(found.mirror, {"status": {"phase": "Succeeded"}})

    def remove(self, which: int) -> None:
        """An ended pod is deleted."""
        ended = [each for each in self.node.api.pods() if finished(each)]
        if ended:
            self.node.api.delete(ended[which % len(ended)])

    # Programs.

    def arm(self, kinds: frozenset[int]) -> None:
        """The agent will be killed at one of its next writes."""
        self.node.points.arm(kinds)

    def kill(self, away: bool) -> None:
        """The agent is killed between two writes; systemd starts it again, or can't for a while."""
        self.node.kill_agent()
        self.kubelet.away = away

    def restart_kubelet(self, crash: bool, early: int) -> None:
        """The kubelet starts anew, and comes to some pods before the plugins have registered."""
        kubelet = self.node.kubelet
        if crash:
            kubelet.crash()
        else:
            kubelet.stop()
        kubelet.start()
        self.kubelet.relist(early)

    def reboot(self, early: int, agent_first: bool) -> None:
        """The host starts anew: no container runs, and the kubelet has only its checkpoint.

        It hears of its pods by the API server: those that were deleted by force don't come again.
        """
        self.node.kill_agent()
        self.node.kubelet.crash()
        for each in self.truth.present:
            if self.node.api.find(each.mirror) is None:
                self.kubelet.exit(each)
            for container in each.running.values():
                self.node.cri.exit(container)
            each.running.clear()
            if each.phase is Phase.STARTED:
                each.phase = Phase.ADMITTED
        self.node.kubelet.start()
        if agent_first:
            self.node.start_agent()
        self.kubelet.relist(early)

    def lose_card(self, which: int, back: bool) -> None:
        """A card falls off the bus, or comes back."""
        minor = MINORS[which]
        faults = () if back else (CardFault(uuid=card(minor).uuid, reason="Lost"),)
        self.node.nvml.set_faults(*faults)
        self.node.observe_cards()
        for each in self.truth.present:
            if not back and minor in each.minors:
                each.excuse = each.excuse or "its card was lost"

    # Time.

    def wait(self, seconds: int) -> None:
        self.node.clock.advance(seconds)

    def lag(self, seconds: int) -> None:
        """From now on the watch is late."""
        self.node.api.lag_seconds = float(seconds)

    def busy(self, calls: int) -> None:
        """Other clients use up the kubelet's rate limit: it refuses so many calls."""
        self.node.kubelet.limited = calls

    def work(self, what: str) -> None:
        """One of the agent's threads has its turn."""
        self.kubelet.revive()
        {
            "recovery": self.node.recover,
            "audit": self.node.audit,
            "writes": self.node.write,
            "register": self.node.register,
        }[what]()
        self.kubelet.note_failures()

    def settle(self) -> None:
        """Nothing happens for two minutes; then all views agree."""
        node = self.node
        node.points.disarm()
        self.kubelet.away, node.kubelet.limited = False, 0
        self.lose_card(0, back=True)
        node.api.catch_up()
        for _ in range(4):
            self.kubelet.revive()
            node.observe_cards()
            node.clock.advance(30)
            node.recover()
            node.audit()
            node.write()
            self.kubelet.note_failures()
        for each in [each for each in self.truth.present if each.phase is Phase.WAITING]:
            self.kubelet.admit(each, memory_first=False)
        for each in [each for each in self.truth.present if each.phase is Phase.ADMITTED]:
            self.kubelet.start(each)
            if each.phase is Phase.ADMITTED:
                self.truth.wrong.append(f"{each.name} {each.uid} can't start")
        node.write()
        self.kubelet.note_failures()
        node.recover()
        self.truth.compare()


def _chosen(found: list[Workload], which: int) -> Workload | None:
    return found[which % len(found)] if found else None
