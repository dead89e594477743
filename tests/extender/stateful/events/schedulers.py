"""Two kube-schedulers: 1.22 with `predicates`, today's with filter, bind, preempt."""

import contextlib
from collections.abc import Collection, Iterator, Sequence

from tests.extender.stateful import pods
from tests.extender.stateful.api_server.caller import Crash
from tests.extender.stateful.events.users import Users
from tests.extender.stateful.hosts import UNITS
from tests.extender.stateful.instance import Filtered, Instance, NoAnswer
from tests.extender.stateful.judges.preemption import Asked
from tests.extender.stateful.judges.truth import SURE_SECONDS
from tests.extender.stateful.world import World
from tests.fakes import kube_rules
from tests.fakes.kube_store import KubeObject

_REFUSED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0 nodes are available",
    "lastTransitionTime": "2023-11-14T22:13:20Z",
}


class Schedulers:
    """The schedulers ask the instances, and write the results to the API server."""

    def __init__(self, world: World, users: Users) -> None:
        self._world = world
        self._users = users
        self._truth = world.truth
        self._server = world.server
        self._promised: dict[str, tuple[str, float]] = {}  # UID: node, when
        self._failed: set[str] = set()  # UIDs of pods that got an error

    @property
    def unfinished(self) -> set[str]:
        """UIDs of pods that a scheduler asks for again by itself, without any event.

        These got an error, or were promised a node and neither bound nor given up: their scheduler
        died, and a scheduler that starts asks for every waiting pod.
        """
        return self._failed | self._promised.keys()

    @contextlib.contextmanager
    def _asking(self, instance: Instance, value: KubeObject) -> Iterator[None]:
        """Ask one instance; it may crash, and give no answer."""
        uid = pods.uid(value)
        self._failed.discard(uid)
        try:
            yield
        except NoAnswer:
            self._failed.add(uid)
            self._keeps_nothing(instance, value)
        except Crash as crash:
            self._failed.add(uid)
            if crash.args != (instance.caller.name,):
                raise
            self._world.replace(instance)

    def _keeps_nothing(self, instance: Instance, value: KubeObject) -> None:
        """A pod without a decision holds no cards, if its instance can know that."""
        uid, caller = pods.uid(value), instance.caller
        there = self._truth.pod(uid)
        if there is None or caller.shown.get(uid, 0) < pods.version(there):
            return
        if not pods.text_of(there) and uid not in dict(self._truth.doubts(caller)):
            assert instance.service.cache.placement(uid) is None, "refused, and keeps cards"

    def _stands(self, instance: Instance, value: KubeObject, name: str) -> None:
        """The pod has the answered decision, or a later one."""
        there = self._truth.pod(pods.uid(value))
        if there is None:
            return
        assert pods.text_of(there), "the answer says reserved, and the pod isn't"
        if instance.caller.shown.get(pods.uid(value), 0) >= pods.version(there):
            where = {node for node, _ in pods.cards(there)}
            assert where == {name}, f"the answer says reserved on {name}, and the pod says {where}"

    # With a Policy.

    def predicates(self, instance: Instance, value: KubeObject) -> None:
        uid = pods.uid(value)
        self._promised.pop(uid, None)
        if self._without_nodes(value):
            return
        with self._asking(instance, value):
            found = instance.predicates(value, self._world.nodes)
            if not found:
                self._keeps_nothing(instance, value)
                self._refuse(value)
            for name in found:
                self._promised[uid] = name, self._server.clock.seconds
                self._stands(instance, value, name)

    def bind_as_promised(self, value: KubeObject) -> None:
        """Bind as a scheduler with a Policy does: by itself, to the node that predicates named."""
        name, when = self._promised.pop(pods.uid(value), ("", 0.0))
        late = self._server.clock.seconds - when >= SURE_SECONDS - 60
        if name and not pods.gated(value) and not late:
            binding = {"target": {"name": name}}
            self._server.store.update(pods.key(value), lambda old: kube_rules.bound(old, binding))

    def give_up(self, value: KubeObject) -> None:
        """Another part than the extender refuses the pod after all."""
        if self._promised.pop(pods.uid(value), None):
            self._refuse(value)
            self._failed.add(pods.uid(value))

    # Today's scheduler.

    def cycle(self, instance: Instance, value: KubeObject, where: int = 0) -> None:
        """Find a node and bind the pod, or find pods to end for it."""
        if self._without_nodes(value):
            return
        with self._asking(instance, value):
            said = instance.filter(value, self._world.nodes)
            if not said.fitting:
                try:
                    self._make_room(instance, value, said, where)
                finally:  # the scheduler writes the pod's status last
                    self._refuse(value)
            for name in _turned(said.fitting, where)[:1]:
                instance.bind(value, name)
                there = self._truth.pod(pods.uid(value))
                if there is not None:
                    assert pods.bound(there) == name, "the answer says bound, and the pod isn't"
                    assert pods.cards(there), "the answer says bound, and the pod has no cards"

    def _without_nodes(self, value: KubeObject) -> bool:
        """A cluster without nodes asks no extender, and its first node wakes every pod."""
        if self._world.nodes:
            return False
        self._refuse(value)
        self._failed.add(pods.uid(value))
        return True

    def _refuse(self, value: KubeObject) -> None:
        """Write that no node fits."""
        self._truth.unschedulable[pods.uid(value)] = self._server.clock.seconds
        there = self._truth.pod(pods.uid(value))
        if there is not None and pods.pending(there):
            pods.patch(self._server.store, there, status={"conditions": [_REFUSED]})

    def _make_room(self, instance: Instance, value: KubeObject, said: Filtered, where: int) -> None:
        """Preempt, as the scheduler's own plugin does with the extender's help."""
        there = self._truth.pod(pods.uid(value))
        if there is None or not pods.pending(there) or pods.gated(there):
            return
        short = {name for name in self._world.nodes if not self._suffices(there, name, ())}
        if self._waits_for_victims(there, said, short):
            return
        proposed = {name: self._proposal(there, name, where) for name in sorted(short)}
        proposed = {name: victims for name, victims in proposed.items() if victims}
        if not proposed:
            self._nominate(there, "")
            return
        asked = Asked(caller=instance.caller, pod=there, proposed=proposed, short=short)
        answer = instance.preempt(there, proposed)
        self._world.preemptions.judge(asked, answer)
        for name in _turned(sorted(answer), where)[:1]:
            self._end(there, name, answer[name])

    def _waits_for_victims(self, value: KubeObject, said: Filtered, short: Collection[str]) -> bool:
        """Whether pods are ending for this one already, and their end may help it."""
        name = pods.nominated(value)
        hopeless = name not in short and name in said.hopeless
        return not hopeless and any(
            pods.priority(each) < pods.priority(value)
            for each in map(self._truth.pod, self._truth.leaving(name))
            if each is not None
        )

    def _suffices(self, value: KubeObject, name: str, without: Collection[str]) -> bool:
        """Whether a node's totals are enough for a pod, as the scheduler's own plugin adds."""
        host = self._truth.hosts.now(name)
        there = [
            each
            for each in self._truth.others(value)
            if pods.uid(each) not in without and self._counts(value, each, name)
        ]
        models = [model for model, well in zip(host.models, host.well, strict=True) if well]
        most = pods.CORES * len(models), sum(UNITS[model] for model in models)
        used = [pods.totals(each) for each in (*there, value)]
        return all(sum(each[which] for each in used) <= most[which] for which in (0, 1))

    def _counts(self, value: KubeObject, other: KubeObject, name: str) -> bool:
        awaited = pods.pending(other) and pods.nominated(other) == name
        before = awaited and pods.priority(other) >= pods.priority(value)
        return before or pods.running(other, name)

    def _proposal(self, value: KubeObject, name: str, where: int) -> list[str]:
        """The scheduler's victims: as few of the less important pods as the totals allow."""
        lower = [
            each
            for each in self._truth.pods()
            if pods.running(each, name) and pods.priority(each) < pods.priority(value)
        ]
        lower.sort(key=lambda each: (-pods.priority(each), pods.uid(each)))
        victims = [pods.uid(each) for each in lower]
        if not self._suffices(value, name, victims):
            return []
        for uid in [] if where else list(victims):
            fewer = [each for each in victims if each != uid]
            if self._suffices(value, name, fewer):
                victims = fewer
        return victims

    def _end(self, value: KubeObject, name: str, victims: Sequence[str]) -> None:
        """Begin the victims' deletion, and keep their room for the pod."""
        for victim in filter(None, map(self._truth.pod, victims)):
            self._users.change(victim, "end")
        for other in list(self._truth.others(value)):
            if pods.nominated(other) == name and pods.priority(other) < pods.priority(value):
                self._nominate(other, "")
        self._nominate(value, name)

    def _nominate(self, value: KubeObject, name: str) -> None:
        there = self._truth.pod(pods.uid(value))
        if there is not None and pods.nominated(there) != name:
            pods.patch(self._server.store, there, status={"nominatedNodeName": name or None})

    def forget_nominations(self) -> None:
        """Remove every nomination, as a scheduler without further victims does."""
        for value in list(self._truth.pods()):
            self._nominate(value, "")


def _turned(among: Sequence[str], by: int) -> list[str]:
    """The same list, beginning with another item."""
    at = by % max(1, len(among))
    return [*among[at:], *among[:at]]
