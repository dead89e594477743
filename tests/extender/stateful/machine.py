"""All that may happen around two extenders, as rules that hypothesis puts in any order.

No draw depends on what is there: rules take numbers and choose by them, so a failing run shrinks.
"""

import contextlib
import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from hypothesis import stateful
from hypothesis import strategies as st

from tests.extender.bench import KEYS, limits, node, pod
from tests.extender.stateful.instance import Instance, NoAnswer
from tests.extender.stateful.ops import ASKS, NAMES, NODES, OPS, PROBES, Op, Plan
from tests.extender.stateful.server import Crash, Server
from tests.extender.stateful.truth import NAMESPACE, SURE_SECONDS, Truth, bound, pending
from tests.fakes import kube_rules
from tests.fakes.kube_store import KubeObject


class Cluster(stateful.RuleBasedStateMachine):
    """An API server, two extenders, two schedulers, and their users."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.truth = Truth(self.server)
        self.count = 0
        self.promised: dict[str, tuple[str, float]] = {}  # UID: node, when
        self.asked = "", 0  # the pod (UID) that a scheduler asks about, and which instance
        self.failed: set[str] = set()  # UIDs of pods that got an error; the scheduler asks again
        self.health: dict[str, dict[int, bool]] = {}
        for name, cards in zip(NODES, (1, 2), strict=True):
            self.write_node(name, dict.fromkeys(range(cards), True))
        self.instances = [self.started(), self.started()]

    def started(self) -> Instance:
        self.count += 1
        return Instance(self.server, self.truth, f"e{self.count}", 0.0)

    def write_node(self, name: str, health: dict[int, bool]) -> None:
        value = node(name, len(health))
        value["metadata"]["uid"] = f"node-{name}"
        devices = json.loads(value["metadata"]["annotations"][KEYS.gpu_devices])
        for at, device in enumerate(devices["devices"]):
            device["healthy"] = health[at]
        value["metadata"]["annotations"][KEYS.gpu_devices] = json.dumps(devices)
        self.health[name] = health
        key = "nodes", "", name
        if any(each["metadata"]["name"] == name for each in self.server.store.list("nodes")[1]):
            stored = self.server.store.update(key, lambda old: _replaced(old, value))
        else:
            stored = self.server.store.create(key, value)
        self.truth.set_node(stored, health)

    # What users and nodes do.

    @stateful.initialize(
        asks=st.lists(st.tuples(st.sampled_from(ASKS), st.booleans()), min_size=3, max_size=6)
    )
    def begin(self, asks: list[tuple[tuple[int, int | None], bool]]) -> None:
        for ask, limited in asks:
            self.create(ask, limited, "")

    @stateful.rule(what=OPS)
    def step(self, what: Op) -> None:
        name, values = what
        getattr(self, name)(**values)

    def arrive(self, ask: tuple[int, int | None], limited: bool, more: str, copies: int) -> None:
        for _ in range(copies):
            self.create(ask, limited, more)

    def create(self, ask: tuple[int, int | None], limited: bool, more: str) -> None:
        """Create a pod; names come back, UIDs don't."""
        taken = {each["metadata"]["name"] for each in self.truth.pods()}
        for name in [name for name in NAMES if name not in taken][:1]:
            self.count += 1
            value = pod(name, *ask)
            small = {"resources": {"limits": limits(30, 90)}}
            if more == "sidecar":
                value["spec"]["initContainers"] = [
                    {"name": "s", "restartPolicy": "Always", **small}
                ]
            if more == "second":
                value["spec"]["containers"].append({"name": "second", **small})
            if more == "gated":
                value["spec"]["schedulingGates"] = [{"name": "wait"}]
            value["metadata"]["uid"] = f"u{self.count}"
            value["metadata"]["namespace"] = NAMESPACE if limited else "default"
            self.server.store.create(_key(value), value)

    def touch(self, whiches: list[int], how: str) -> None:
        for which in whiches:
            for value in _chosen(self.truth.pods(), which):
                self.change(value, how, which)

    def change(self, value: KubeObject, how: str, which: int = 0) -> None:
        metadata: dict[str, Any] = {}
        patch: KubeObject = {"metadata": metadata}
        if how == "delete":
            with contextlib.suppress(Exception):
                self.server.store.delete(_key(value))
            return
        if how == "finish":
            patch["status"] = {"phase": "Succeeded"}
        elif how == "end" and bound(value):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        elif how == "label":
            metadata["labels"] = {"touched": str(self.server.store.version)}
        elif how == "ungate":
            patch["spec"] = {"schedulingGates": None}
        elif how == "strip":
            written = value["metadata"].get("annotations") or {}
            metadata["annotations"] = {key: None for key in written if "/predicate-" in key}
        elif how == "forge" and not bound(value):
            metadata["annotations"] = self.forged(value, which)
        self.truth.decision(
            self.server.store.update(_key(value), functools.partial(_merged, patch=patch))
        )

    def forged(self, value: KubeObject, which: int) -> dict[str, str | None]:
        count = max(
            1, int(value["spec"]["containers"][0]["resources"]["limits"][KEYS.vcuda_core]) // 100
        )
        return {
            KEYS.predicate_node: NODES[which % 2],
            KEYS.predicate_time: str(self.instances[0].now_ns()),
            f"{KEYS.idx_prefix}0": ",".join(map(str, range(count))),
            f"{KEYS.uuid_prefix}0": None,
        }

    def reconfigure(self, what: str, card: int, how: str, cards: object) -> None:
        if what == "quota":
            self.set_quota(cards)
        else:
            self.change_node(what, card, how)

    def change_node(self, name: str, card: int, how: str) -> None:
        if how == "gone" and name in self.health:
            self.server.store.delete(("nodes", "", name))
            version = str(self.server.store.version)
            self.truth.set_node({"metadata": {"name": name, "resourceVersion": version}}, {})
            del self.health[name]
        elif how != "gone" and (how == "back" or name in self.health):
            health = self.health.get(name) or {0: True, 1: True}
            self.write_node(name, {**health, min(card, len(health) - 1): how != "sick"})

    def set_quota(self, cards: object) -> None:
        key = "configmaps", "kube-system", "gpuquota"
        there = bool(self.server.store.list("configmaps")[1])
        if cards is None:
            if there:
                self.server.store.delete(key)
            return
        quota = {NAMESPACE: {"quota": {"A100": cards}, "pool": []}}
        data = {"gpu_quota": "{" if cards == "broken" else json.dumps(quota)}
        if there:
            self.server.store.update(key, lambda old: {**old, "data": data})
        else:
            metadata = {"name": key[2], "namespace": key[1], "uid": "quota"}
            self.server.store.create(key, {"metadata": metadata, "data": data})

    # What schedulers do.

    def schedule(self, steps: list[tuple[str, int, int, int]], plan: Plan) -> None:
        """Let the schedulers do some things one after another; faults come where they come."""
        with self.planned(plan):
            for what, which, asked, where in steps:
                if not any(map(pending, self.truth.pods())):
                    self.create(ASKS[which % len(ASKS)], bool(where), "")
                for value in _chosen(filter(pending, self.truth.pods()), which):
                    self.asked = value["metadata"]["uid"], asked
                    self.schedule_one(value, what, asked, where)

    def schedule_one(self, value: KubeObject, what: str, asked: int, where: int) -> None:
        if what == "predicates":
            self.ask_predicates(self.instances[asked], value)
        elif what == "bind":
            self.ask_bind(self.instances[asked], value, where)
        elif what == "as promised":
            self.bind_as_promised(value)
        elif what == "catch up":
            self.instances[asked].deliver("pods", 1 + where, bookmark=False)
        elif what == "land":
            self.land(where)
        else:
            self.give_up(value)

    def ask_predicates(self, instance: Instance, value: KubeObject) -> None:
        uid = value["metadata"]["uid"]
        self.promised.pop(uid, None)
        with self.asking(instance, value):
            found = instance.predicates(value, self.nodes)
            if not found:
                self.refused(value)
            for name in found:
                self.promised[uid] = name, self.server.clock.seconds

    def ask_bind(self, instance: Instance, value: KubeObject, where: int = 0) -> None:
        with self.asking(instance, value):
            fitting = instance.filter(value, self.nodes)
            if not fitting:
                self.refused(value)
            for name in fitting[where % max(1, len(fitting)) :][:1]:
                instance.bind(value, name)
                for each in self.truth.pods():
                    if each["metadata"]["uid"] == value["metadata"]["uid"]:
                        assert bound(each) == name, "said to be bound, and isn't"

    @contextlib.contextmanager
    def asking(self, instance: Instance, value: KubeObject) -> Iterator[None]:
        """Ask one instance; it may die of it, and give no answer."""
        uid = value["metadata"]["uid"]
        self.failed.discard(uid)
        try:
            yield
        except NoAnswer:
            self.failed.add(uid)
        except Crash as crash:
            self.failed.add(uid)
            if crash.args != (instance.caller.name,):
                raise
            self.replace(instance)

    def replace(self, instance: Instance) -> None:
        for at, each in enumerate(self.instances):
            if each is instance:
                plan, self.server.plan = self.server.plan, []
                self.instances[at] = self.started()
                self.server.plan = plan

    def refused(self, value: KubeObject) -> None:
        """Write down, as the scheduler does, that no node fits."""
        self.truth.unschedulable[value["metadata"]["uid"]] = self.server.clock.seconds
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0 nodes are available",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        }
        for each in self.truth.pods():
            if each["metadata"]["uid"] == value["metadata"]["uid"] and pending(each):
                patch = {"status": {"conditions": [condition]}}
                self.server.store.update(_key(each), functools.partial(_merged, patch=patch))

    def bind_as_promised(self, value: KubeObject) -> None:
        """Bind as the seeds' scheduler does: by itself, to the node that predicates named."""
        name, when = self.promised.pop(value["metadata"]["uid"], ("", 0.0))
        gated = value["spec"].get("schedulingGates")
        if name and not gated and self.server.clock.seconds - when < SURE_SECONDS - 60:
            self.server.store.update(_key(value), lambda old: _bound(old, name))

    def give_up(self, value: KubeObject) -> None:
        """Something else than the extender refuses the pod after all."""
        if self.promised.pop(value["metadata"]["uid"], None):
            self.refused(value)
            self.failed.add(value["metadata"]["uid"])

    # What happens to the extenders.

    def deliver(self, which: int, watch: str, count: int, bookmark: bool) -> None:
        self.instances[which].deliver(watch, count, bookmark=bookmark)

    def advance(self, seconds: int) -> None:
        self.land_all()
        self.server.clock.seconds += seconds

    def land_all(self) -> None:
        """The API server works on a request for a minute at most."""
        while self.server.late:
            self.land(0)

    def disturb(self, what: str, which: int, seconds: float) -> None:
        if what == "crash":
            self.replace(self.instances[which])
        elif what == "compact":
            self.server.store.compact()
        elif what == "clock":
            self.instances[which].skew_seconds = seconds
        else:
            self.land(which)

    def land(self, which: int) -> None:
        """Carry out a request whose sender has given up waiting."""
        if self.server.late:
            self.server.late.pop(which % len(self.server.late))()

    def wake(self, which: int, plan: Plan) -> None:
        """Let the retry thread run once, and the scheduler look at whom it woke."""
        self.asked = "", which
        with self.planned(plan):
            self.look(self.instances[which])

    def look(self, instance: Instance) -> None:
        woken: list[str] = []
        try:
            woken = instance.wake()
        except Crash:
            self.replace(instance)
        self.ask_again(set(woken))

    def ask_again(self, uids: set[str]) -> None:
        for value in filter(pending, self.truth.pods()):
            if value["metadata"]["uid"] in uids and not value["spec"].get("schedulingGates"):
                self.ask_bind(self.instances[0], value)

    def settle(self, crash: tuple[int, ...], free: list[int]) -> None:
        """Some pods end, then nothing happens for 5 s, and watches keep up: nobody waits."""
        self.land_all()
        for at in crash:
            self.replace(self.instances[at])
        for which in free:
            for value in _chosen(filter(bound, self.truth.pods()), which):
                self.change(value, "finish")
        for _ in range(10):
            for instance in list(self.instances):
                instance.deliver_all()
                self.look(instance)
            self.ask_again(set(self.failed))
            self.server.clock.seconds += 0.5
        self.instances[0].deliver_all()
        for value in filter(pending, self.truth.pods()):
            if value["metadata"]["uid"] in self.truth.unschedulable:
                self.waits_for_a_reason(value)

    def waits_for_a_reason(self, value: KubeObject) -> None:
        leader = self.instances[0].caller
        if value["spec"].get("schedulingGates") or self.truth.holds(value, surely=False):
            return
        if leader.no_quota_yet or not self.truth.within_quota(value, leader.quota):
            return
        for name in self.nodes:
            total = self.truth.uses(name, surely=False, by=leader)
            fits = self.truth.fits(value, name, total)
            assert not fits, f"{value['metadata']['name']} waits, and fits on {name}"

    # Planned events.

    @contextlib.contextmanager
    def planned(self, plan: Plan) -> Iterator[None]:
        """Let these events come at the API calls of what the block does."""
        self.server.plan = [
            (skip, writes, event, functools.partial(self.meanwhile, what, which))
            for skip, writes, event, what, which in plan
        ]
        try:
            yield
        finally:
            self.server.plan = []

    def meanwhile(self, what: str, which: int) -> None:
        """Let something else happen while a call is under way."""
        uid, at = self.asked
        mine, rival = self.instances[at], self.instances[1 - at]
        named = [each for each in self.truth.pods() if each["metadata"]["uid"] == uid]
        if what == "deliver":
            mine.deliver(["pods", "nodes", "quota"][which % 3], 1 + which % 3, bookmark=True)
        elif what in {"label", "delete"}:
            for each in named:
                self.change(each, what)
        elif what == "later":
            self.server.clock.seconds += 1 + which % 12
        else:
            others = [each for each in filter(pending, self.truth.pods()) if each not in named]
            found = named if what == "rival" else _chosen(others, which)
            for each in filter(pending, found):
                self.ask_meanwhile(mine if what == "another" else rival, each, which)

    def ask_meanwhile(self, instance: Instance, value: KubeObject, which: int) -> None:
        # What waits for its turn in a thread would wait here for ever.
        if instance.caller.alive and not instance.busy_with(value["metadata"]["uid"]):
            before = self.asked
            (self.ask_predicates if which % 2 else self.ask_bind)(instance, value)
            self.asked = before

    # What must be.

    @property
    def nodes(self) -> list[str]:
        return sorted(self.health)

    @stateful.invariant()
    def nothing_was_given_twice(self) -> None:
        type(self).steps += 1
        assert not self.truth.wrong, self.truth.wrong

    def teardown(self) -> None:
        """However it went, in the end every card is free that no bound pod holds."""
        self.land_all()
        self.set_quota(None)
        for _ in range(10):
            self.server.clock.seconds += 110
            for instance in self.instances:
                instance.deliver_all()
        for instance in [*self.instances, self.started()]:
            for ask in PROBES:
                self.count += 1
                probe = pod(f"probe{self.count}", *ask)
                probe["metadata"]["uid"] = f"probe{self.count}"
                probe = self.server.store.create(_key(probe), probe)
                instance.deliver_all()
                found = set(instance.filter(probe, self.nodes))
                self.server.store.delete(_key(probe))
                fitting = {
                    name
                    for name in self.nodes
                    if self.truth.fits(probe, name, self.truth.uses(name, surely=True))
                }
                assert found == fitting, f"{instance.caller.name}: {ask} on {found}, not {fitting}"


def _chosen(among: Iterable[KubeObject], which: int) -> list[KubeObject]:
    found = list(among)
    return [found[which % len(found)]] if found else []


def _key(value: KubeObject) -> tuple[str, str, str]:
    return "pods", value["metadata"]["namespace"], value["metadata"]["name"]


def _merged(old: KubeObject, patch: KubeObject) -> KubeObject:
    return kube_rules.patched(old, patch, "application/merge-patch+json")


def _bound(old: KubeObject, name: str) -> KubeObject:
    return kube_rules.bound(old, {"target": {"name": name}})


def _replaced(old: KubeObject, new: KubeObject) -> KubeObject:
    metadata = {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
    return {**new, "metadata": {**old["metadata"], **metadata}}
