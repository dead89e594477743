"""All events around two extenders, as rules that hypothesis puts in any order.

A draw doesn't depend on the state: rules take numbers and choose by them, so a failing run shrinks.
"""

from collections import Counter
from typing import ClassVar

from hypothesis import stateful
from hypothesis import strategies as st

from tests.extender.mini_cluster import pod
from tests.extender.stateful import pods
from tests.extender.stateful.api_server.caller import Crash
from tests.extender.stateful.events.ops import ASKS, OPS, PROBES, Ask, Op, Plan, chosen
from tests.extender.stateful.events.schedulers import Schedulers
from tests.extender.stateful.events.stories import Stories
from tests.extender.stateful.events.users import Users
from tests.extender.stateful.instance import Instance
from tests.extender.stateful.quotas import NAMESPACES
from tests.extender.stateful.world import World
from tests.fakes.kube_store import KubeObject


class Cluster(stateful.RuleBasedStateMachine):
    """An API server, two extenders, two schedulers, and their users."""

    steps: ClassVar[int] = 0
    judged: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.server, self.truth = self.world.server, self.world.truth
        self.users = Users(self.world)
        self.schedulers = Schedulers(self.world, self.users)
        self.stories = Stories(self.world, self.users, self.schedulers)
        self.world.instances = [self.world.started(), self.world.started()]

    @property
    def instances(self) -> list[Instance]:
        return self.world.instances

    @stateful.initialize(
        asks=st.lists(
            st.tuples(st.sampled_from(ASKS), st.sampled_from(NAMESPACES)), min_size=3, max_size=6
        )
    )
    def begin(self, asks: list[tuple[Ask, str]]) -> None:
        for ask, namespace in asks:
            self.users.arrive(ask, namespace, "", 0)

    @stateful.rule(what=OPS)
    def step(self, what: Op) -> None:
        name, values = what
        owners = (self.users, self.stories, self)
        getattr(next(each for each in owners if hasattr(each, name)), name)(**values)

    # Events of the extenders.

    def deliver(self, which: int, watch: str, count: int, bookmark: bool) -> None:
        self.instances[which].deliver(watch, count, bookmark=bookmark)

    def advance(self, seconds: int) -> None:
        self.stories.land_all()
        self.server.clock.seconds += seconds

    def disturb(self, what: str, which: int, seconds: float) -> None:
        if what == "crash":
            self.world.replace(self.instances[which])
        elif what == "compact":
            self.server.store.compact()
        elif what == "clock":
            self.instances[which].skew_seconds = seconds
        else:
            self.stories.land(which)

    def wake(self, which: int, plan: Plan) -> None:
        """Let the retry thread run once, and the scheduler ask for the woken pods."""
        self.world.asked = "", which
        with self.stories.planned(plan):
            self.look(self.instances[which])

    def look(self, instance: Instance) -> None:
        woken: list[str] = []
        try:
            woken = instance.wake()
        except Crash:
            self.world.replace(instance)
        self.ask_again(set(woken))

    def ask_again(self, uids: set[str]) -> None:
        for value in list(filter(pods.pending, self.truth.pods())):
            if pods.uid(value) in uids and not pods.gated(value):
                self.schedulers.cycle(self.instances[0], value)

    # Time passes.

    def settle(self, crash: tuple[int, ...], free: list[int]) -> None:
        """Some pods end, then watches keep up for 5 s without events: no pod waits in vain."""
        self.stories.land_all()
        for at in crash:
            self.world.replace(self.instances[at])
        for which in free:
            for value in chosen(filter(pods.bound, self.truth.pods()), which):
                self.users.change(value, "finish")
        for _ in range(10):
            self.end_victims()
            for instance in list(self.instances):
                instance.deliver_all()
                self.look(instance)
            # The scheduler asks again for nominated pods when any pod ends.
            waiting = {pods.uid(each) for each in self.truth.pods() if pods.nominated(each)}
            self.ask_again(self.schedulers.unfinished | waiting)
            self.server.clock.seconds += 0.5
        self.end_victims()
        self.instances[0].deliver_all()
        for value in filter(pods.pending, self.truth.pods()):
            if pods.uid(value) in self.truth.unschedulable:
                self.waits_for_a_reason(value)

    def end_victims(self) -> None:
        """Delete all ending pods."""
        for value in list(self.truth.pods()):
            if pods.ending(value):
                self.users.change(value, "delete")

    def waits_for_a_reason(self, value: KubeObject) -> None:
        leader = self.instances[0].caller
        waits = pods.gated(value) or self.truth.holds(value, surely=False)
        # The instance that refused a pod wakes it, or after a crash its successor does; an instance
        # that refuses all pods wakes none. The scheduler's own flush comes to that.
        elsewhere = any(
            each.caller.no_quota_yet and each.keeps(pods.uid(value)) for each in self.instances[1:]
        )
        if waits or leader.no_quota_yet or elsewhere:
            return
        for name in self.world.nodes:
            total = self.truth.uses(name, surely=False, by=leader)
            fits = self.truth.allowed(value, name, total, leader.quota)
            first = self.truth.in_line(value, name)
            assert not fits or first, f"{value['metadata']['name']} waits, and fits on {name}"

    # Invariants.

    @stateful.invariant()
    def nothing_was_given_twice(self) -> None:
        type(self).steps += 1
        assert not self.world.wrong, self.world.wrong

    def teardown(self) -> None:
        """After any run, in the end all cards are free but those of bound pods."""
        self.judged["decisions"] += self.world.decisions.count
        self.judged["preemptions"] += self.world.preemptions.exact
        self.stories.land_all()
        self.users.set_quota(None)
        self.schedulers.forget_nominations()
        for _ in range(7):  # longer than any reservation, in steps in which a watch stays fresh
            self.server.clock.seconds += 160
            for instance in self.instances:
                instance.deliver_all()
        for instance in [*self.instances, self.world.started()]:
            for ask in PROBES:
                self.probe(instance, ask)

    def probe(self, instance: Instance, ask: Ask) -> None:
        number = self.world.number()
        probe = pod(f"probe{number}", *ask)
        probe["metadata"]["uid"] = f"probe{number}"
        probe = self.server.store.create(pods.key(probe), probe)
        instance.deliver_all()
        found = set(instance.filter(probe, self.world.nodes).fitting)
        self.server.store.delete(pods.key(probe))
        fitting = {
            name
            for name in self.world.nodes
            if self.truth.fits(probe, name, self.truth.uses(name, surely=True))
        }
        assert found == fitting, f"{instance.caller.name}: {ask} on {found}, not {fitting}"
