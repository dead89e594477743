"""Stories of schedulers and instances, step by step, with planned faults."""

import contextlib
import functools
from collections.abc import Collection, Iterator
from typing import Any

from tests.extender.stateful import pods
from tests.extender.stateful.api_server.caller import Crash
from tests.extender.stateful.events.ops import ASKS, Ask, Plan, Step, chosen
from tests.extender.stateful.events.schedulers import Schedulers
from tests.extender.stateful.events.users import Users
from tests.extender.stateful.instance import Instance
from tests.extender.stateful.quotas import FREE, LIMITED, NAMESPACES
from tests.extender.stateful.world import World
from tests.fakes.kube_store import KubeObject


class Stories:
    """Lets schedulers ask while other events happen."""

    def __init__(self, world: World, users: Users, schedulers: Schedulers) -> None:
        self._world = world
        self._users = users
        self._schedulers = schedulers
        self._server, self._truth = world.server, world.truth

    def schedule(self, steps: list[Step], plan: Plan) -> None:
        """Let the schedulers take steps one after another, with planned faults."""
        if not any(map(pods.pending, self._truth.pods())):
            which, where = steps[0][1], steps[0][3]
            namespace = LIMITED if where else NAMESPACES[0]
            self._users.arrive(ASKS[which % len(ASKS)], namespace, "", 0)
        self._schedule(steps, plan, ())

    def _schedule(self, steps: list[Step], plan: Plan, among: Collection[str]) -> None:
        """Take the steps with some pods (UID), or with any waiting pods if none of them waits."""
        with self.planned(plan):
            for what, which, asked, where in steps:
                waiting = list(filter(pods.pending, self._truth.pods()))
                some = [each for each in waiting if pods.uid(each) in among]
                for value in chosen(some or waiting, which):
                    self._world.asked = pods.uid(value), asked
                    self.schedule_one(value, what, self._world.instances[asked], where)

    def schedule_one(self, value: KubeObject, what: str, instance: Instance, where: int) -> None:
        if what == "predicates":
            self._schedulers.predicates(instance, value)
        elif what == "cycle":
            self._schedulers.cycle(instance, value, where)
        elif what == "as promised":
            self._schedulers.bind_as_promised(value)
        elif what == "catch up":
            self.catch_up(instance, 1 + where)
        elif what == "keep up":
            self.catch_up(instance)
        elif what == "land":
            self.land(where)
        else:
            self._schedulers.give_up(value)

    def urgent(
        self,
        *,
        crowd: list[tuple[Ask, int]],
        arrival: dict[str, Any],
        asked: int,
        where: int,
        plan: Plan,
        leave: int,
        others: list[int],
    ) -> None:
        """A pod comes and others may have to end for it; some do, and more pods want the room."""
        self._crowd(crowd, asked)
        fresh = self._arrived(arrival)
        self._world.instances[asked].deliver_all()
        if fresh:
            self._schedule([("cycle", 0, asked, where)], plan, fresh)
        for value in list(filter(pods.ending, self._truth.pods()))[:leave]:
            self._users.change(value, "delete")
        for which in others:
            self._world.instances[asked].deliver_all()
            what = "predicates" if which % 3 == 0 else "cycle"
            self._schedule([(what, which, asked, 0)], [], ())

    def _crowd(self, crowd: list[tuple[Ask, int]], asked: int) -> None:
        """Replace all bound pods by these, if there are any: shares side by side."""
        for value in list(filter(pods.bound, self._truth.pods())) if crowd else []:
            self._users.change(value, "delete")
        for at, (ask, priority) in enumerate(crowd):
            arrival = {"ask": ask, "namespace": FREE, "more": "", "priority": priority}
            fresh = self._arrived(arrival)
            if fresh:
                self._world.instances[asked].deliver_all()
                self._schedule([("cycle", 0, asked, at % 2)], [], fresh)

    def lose(
        self, *, arrival: dict[str, Any], asked: int, free: list[int], steps: list[Step], plan: Plan
    ) -> None:
        """Pods with equal requests want the same cards, and answers are lost."""
        for which in free:
            for value in chosen(filter(pods.bound, self._truth.pods()), which):
                self._users.change(value, "delete")
        fresh = self._arrived(arrival)
        self._world.instances[asked].deliver_all()
        self._schedule(steps, plan, fresh)

    def _arrived(self, arrival: dict[str, Any]) -> set[str]:
        before = {pods.uid(each) for each in self._truth.pods()}
        self._users.arrive(**arrival)
        return {pods.uid(each) for each in self._truth.pods()} - before

    def catch_up(self, instance: Instance, count: int = 0) -> None:
        """Show some pods, or everything; an instance may crash in a list for it."""
        try:
            if count:
                instance.deliver("pods", count, bookmark=False)
            else:
                instance.deliver_all()
        except Crash:
            self._world.replace(instance)

    def land_all(self) -> None:
        """Carry out all late requests: the API server works on one for a minute at most."""
        while self._server.late:
            self.land(0)

    def land(self, which: int) -> None:
        """Carry out a request whose sender has given up waiting."""
        if self._server.late:
            self._server.late.pop(which % len(self._server.late))()

    # Planned events.

    @contextlib.contextmanager
    def planned(self, plan: Plan) -> Iterator[None]:
        """Let these events come at the API calls of the block."""
        self._server.plan = [
            (skip, writes, event, functools.partial(self.meanwhile, what, which))
            for skip, writes, event, what, which in plan
        ]
        try:
            yield
        finally:
            self._server.plan = []

    def meanwhile(self, what: str, which: int) -> None:
        """Let another event happen during a call."""
        uid, at = self._world.asked
        mine, rival = self._world.instances[at], self._world.instances[1 - at]
        named = [each for each in self._truth.pods() if pods.uid(each) == uid]
        if what == "deliver":
            mine.deliver(["pods", "nodes", "quota"][which % 3], 1 + which % 3, bookmark=True)
        elif what == "land":
            self.land(which)
        elif what in {"label", "choose", "delete", "replace"}:
            for each in named:
                self._users.change(each, what)
        elif what == "later":
            self._server.clock.seconds += 1 + which % 12
        else:
            others = [e for e in self._truth.pods() if pods.pending(e) and e not in named]
            found = named if what == "rival" else chosen(others, which)
            for each in filter(pods.pending, found):
                self.ask_meanwhile(mine if what == "another" else rival, each, which)

    def ask_meanwhile(self, instance: Instance, value: KubeObject, which: int) -> None:
        # A request that waits for another in a thread would wait here for ever.
        if instance.caller.alive and not instance.busy_with(pods.uid(value)):
            before = self._world.asked
            ask = self._schedulers.predicates if which % 2 else self._schedulers.cycle
            ask(instance, value)
            self._world.asked = before
