"""Whose each card is, by what the kubelet and the API server did; and what the agent did wrong."""

from gpustack.wire.pods import finished
from tests.agent.stateful.node import MINORS, Node
from tests.agent.stateful.workloads import Phase, Workload

_CORES = 100  # of a card


class Truth:
    """All pods so far, and the faults.

    Attributes:
        wrong: what must not have happened, in words.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.workloads: list[Workload] = []
        self.wrong: list[str] = []

    @property
    def present(self) -> list[Workload]:
        return [each for each in self.workloads if each.phase is not Phase.ENDED]

    def counted(self) -> list[Workload]:
        """Return the pods whose cards are taken by the API server's word."""
        return [
            each
            for each in self.workloads
            if (shown := self._node.api.find(each.mirror)) is not None
            and (not finished(shown) or self._may_be_admitted(each))
        ]

    def _may_be_admitted(self, found: Workload) -> bool:
        """Whether a static pod, which was rejected, is still its kubelet's."""
        return found.shape.is_static and (found.was_rejected or found.phase is not Phase.ENDED)

    def waits_for_a_kubelet(self, found: Workload) -> bool:
        """Say whether the next kubelet admits the pod again: a static one that was rejected."""
        shown = self._node.api.find(found.mirror)
        return found.shape.is_static and found.was_rejected and shown is not None

    def is_crowded(self, found: Workload) -> bool:
        """Say whether another pod still runs on its card: one that was deleted by force."""
        counted = self.counted()
        others = [
            each
            for each in self.workloads
            if each is not found
            and (each in counted or each.running or each.phase is Phase.ADMITTED)
        ]
        return any(
            found.takes(minor)[0] + sum(each.takes(minor)[0] for each in others) > _CORES
            for minor in found.minors
        )

    def count_room(self) -> None:
        """Compare what runs on each card with what the card has."""
        running = [each for each in self.present if each.running]
        for minor in MINORS:
            cores = sum(each.takes(minor)[0] for each in running)
            if cores > _CORES:
                names = ", ".join(each.name for each in running)
                self.wrong.append(f"card {minor} has {cores} cores taken by {names}")

    def compare(self) -> None:
        """Compare the agent's records with what runs."""
        agent = self._node.agent
        assert agent is not None
        records = {each.uid: each for each in agent.records.all()}
        for each in self.present:
            record = records.get(each.uid)
            for name in each.running:
                own = None if record is None else record.container(name)
                if own is None:
                    self.wrong.append(f"{each.name}/{name} {each.uid} runs without a record")
                elif own.placement.minors != (each.card_of(name),):
                    self.wrong.append(
                        f"{each.name}/{name} {each.uid} runs on card {each.card_of(name)} and is"
                        f" recorded on {own.placement.minors}"
                    )
        alive = {each.uid for each in self.workloads if self.waits_for_a_kubelet(each)}
        alive |= {each.uid for each in self.present}
        for uid in records.keys() - alive:
            self.wrong.append(f"{records[uid].name} {uid} is gone and holds cards")
