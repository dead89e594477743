"""The world: the API server, the instances, and the judges of their decisions."""

from tests.extender.stateful.api_server.server import Server
from tests.extender.stateful.hosts import A40, A100
from tests.extender.stateful.instance import Instance
from tests.extender.stateful.judges.judge import Decisions
from tests.extender.stateful.judges.preemption import Preemptions
from tests.extender.stateful.judges.truth import Truth

POOLS = {"n1": "west", "n2": "east"}
MODELS = {"n1": (A100,), "n2": (A100, A40)}  # of the cards of each node


class World:
    """The common state of users, schedulers and faults."""

    def __init__(self) -> None:
        self.server = Server()
        self.truth = Truth(self.server)
        self.decisions = Decisions(self.truth)
        self.preemptions = Preemptions(self.truth)
        self.instances: list[Instance] = []
        self.asked = "", 0  # the pod (UID) of a scheduler's request, and the instance's index
        self._count = 0

    def number(self) -> int:
        """A new number: names come back, UIDs don't."""
        self._count += 1
        return self._count

    def started(self) -> Instance:
        """A new process."""
        return Instance(self.server, self.decisions, f"e{self.number()}", 0.0)

    def replace(self, instance: Instance) -> None:
        """Start another process in place of a crashed one."""
        for at, each in enumerate(self.instances):
            if each is instance:
                plan, self.server.plan = self.server.plan, []
                self.instances[at] = self.started()
                self.server.plan = plan

    @property
    def nodes(self) -> list[str]:
        """The present nodes."""
        return self.truth.hosts.names

    @property
    def wrong(self) -> list[str]:
        """The faults so far."""
        return self.decisions.wrong + self.preemptions.wrong
