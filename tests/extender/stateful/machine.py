"""All that may happen around two extenders, as rules that hypothesis puts in any order.

No draw depends on what is there: rules take numbers and choose by them, so a failing run shrinks.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from hypothesis import stateful
from hypothesis import strategies as st

from tests.extender.bench import KEYS, limits, node, pod
from tests.extender.stateful.instance import Instance, NoAnswer
from tests.extender.stateful.server import Crash, Server
from tests.extender.stateful.truth import NAMESPACE, SURE_SECONDS, Truth, bound, pending
from tests.fakes.kube_store import KubeObject

NODES = ("n1", "n2")
ASKS = [(30, 100), (30, 100), (60, 200), (70, 100), (100, None), (200, None)]
NAMES = [f"p{at}" for at in range(8)]
PROBES = [(30, 100), (70, 250), (100, None), (200, None)]

WHICH = st.integers(0, 1000)
ONE = st.integers(0, 1)
# What happens at an API call: to the answer, to the process, or meanwhile to others.
EVENTS = [
    "crash", "crash after", "cut", "cut after", "silent", "late", "409", "429", "500", "504 after",
    "before", "after",
]  # fmt: skip
SCHEDULING = ["predicates", "bind", "predicates", "bind", "as promised", "give up"]
MEANWHILE = ["deliver", "label", "delete", "rival", "rival with another", "another", "later"]
PLAN = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(EVENTS), st.sampled_from(MEANWHILE), WHICH),
    max_size=2,
)
Plan = list[tuple[int, str, str, int]]


class Cluster(stateful.RuleBasedStateMachine):
    """An API server, two extenders, two schedulers, and their users."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.truth = Truth(self.server)
        self.count = 0
        self.promised: dict[str, tuple[str, float]] = {}  # UID: node, when
        self.failed: set[str] = set()  # UIDs of pods that got an error; the scheduler asks again
        self.health: dict[str, dict[int, bool]] = {}
        for name, cards in zip(NODES, (2, 3), strict=True):
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

    @stateful.rule(
        ask=st.sampled_from(ASKS),
        limited=st.booleans(),
        more=st.sampled_from(["", "sidecar", "second", "gated"]),
        copies=st.integers(1, 3),
    )
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

    @stateful.rule(
        whiches=st.lists(WHICH, min_size=1, max_size=3),
        how=st.sampled_from(["delete", "finish", "end", "label", "ungate", "strip", "forge"]),
    )
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
        self.truth.decision(self.server.store.update(_key(value), lambda old: _merged(old, patch)))

    def forged(self, value: KubeObject, which: int) -> dict[str, str | None]:
        count = max(1, int(value["spec"]["containers"][0]["resources"]["limits"][KEYS.vcuda_core]) // 100)
        return {
            KEYS.predicate_node: NODES[which % 2],
            KEYS.predicate_time: str(self.instances[0].now_ns()),
            f"{KEYS.idx_prefix}0": ",".join(map(str, range(count))),
            f"{KEYS.uuid_prefix}0": None,
        }

    @stateful.rule(
        what=st.sampled_from([*NODES, "quota"]),
        card=ONE,
        how=st.sampled_from(["sick", "well", "gone", "back"]),
        cards=st.sampled_from([None, "broken", 0.3, 1.0, 2.5]),
    )
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
            health = self.health.get(name) or dict.fromkeys(range(2), True)
            self.write_node(name, {**health, card: how != "sick"})

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

    @stateful.rule(
        steps=st.lists(
            st.tuples(st.sampled_from(SCHEDULING), WHICH, ONE, ONE), min_size=1, max_size=5
        ),
        plan=PLAN,
    )
    def schedule(self, steps: list[tuple[str, int, int, int]], plan: Plan) -> None:
        """Let the schedulers do some things one after another; faults come where they come."""
        for at, (what, which, asked, where) in enumerate(steps):
            if not any(map(pending, self.truth.pods())):
                self.create(ASKS[which % len(ASKS)], bool(where), "")
            for value in _chosen(filter(pending, self.truth.pods()), which):
                with self.planned(value, asked, [] if at else plan):
                    self.schedule_one(value, what, asked, where)

    def schedule_one(self, value: KubeObject, what: str, asked: int, where: int) -> None:
        if what == "predicates":
            self.ask_predicates(self.instances[asked], value)
        elif what == "bind":
            self.ask_bind(self.instances[asked], value, where)
        elif what == "as promised":
            self.bind_as_promised(value)
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
    def asking(self, instance: Instance, value: KubeObject) -> Any:
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
                self.server.store.update(_key(each), lambda old: _merged(old, patch))

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

    @stateful.rule(
        which=ONE,
        watch=st.sampled_from(["nodes", "pods", "pods", "quota"]),
        count=st.sampled_from([0, 1, 2, 1000]),
        bookmark=st.booleans(),
    )
    def deliver(self, which: int, watch: str, count: int, bookmark: bool) -> None:
        self.instances[which].deliver(watch, count, bookmark=bookmark)

    @stateful.rule(seconds=st.sampled_from([1, 6, 11, 31, 200, 900]))
    def advance(self, seconds: int) -> None:
        self.land_all()
        self.server.clock.seconds += seconds

    def land_all(self) -> None:
        """The API server works on a request for a minute at most."""
        while self.server.late:
            self.server.late.pop(0)()

    @stateful.rule(
        what=st.sampled_from(["crash", "compact", "land", "clock"]),
        which=ONE,
        seconds=st.sampled_from([-10.0, 0.0, 10.0]),
    )
    def disturb(self, what: str, which: int, seconds: float) -> None:
        if what == "crash":
            self.replace(self.instances[which])
        elif what == "compact":
            self.server.store.compact()
        elif what == "clock":
            self.instances[which].skew_seconds = seconds
        elif self.server.late:
            # A request is carried out whose sender has given up waiting.
            self.server.late.pop(which % len(self.server.late))()

    @stateful.rule(which=ONE, plan=PLAN)
    def wake(self, which: int, plan: Plan) -> None:
        """Let the retry thread run once, and the scheduler look at whom it woke."""
        for value in self.truth.pods()[:1]:
            with self.planned(value, which, plan):
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
            if value["metadata"]["uid"] in uids:
                self.ask_bind(self.instances[0], value)

    @stateful.rule()
    def settle(self) -> None:
        """Nobody does anything for 5 s, and watches keep up: nobody waits for what is free."""
        self.land_all()
        for _ in range(10):
            for instance in list(self.instances):
                instance.deliver_all()
                self.look(instance)
            self.ask_again(set(self.failed))
            self.server.clock.seconds += 0.5
        leader = self.instances[0]
        leader.deliver_all()
        for value in filter(pending, self.truth.pods()):
            metadata = value["metadata"]
            if metadata["uid"] not in self.truth.unschedulable or self.truth.holds(value, surely=False):
                continue
            if value["spec"].get("schedulingGates"):
                continue
            if leader.caller.no_quota_yet or not self.truth.within_quota(value, leader.caller.quota):
                continue
            for name in self.nodes:
                total = self.truth.uses(name, surely=False, by=leader.caller)
                assert not self.truth.fits(value, name, total), f"{metadata['name']} waits for {name}"

    # Planned events.

    @contextlib.contextmanager
    def planned(self, value: KubeObject, asked: int, plan: Plan) -> Any:
        """Let these events come at the API calls of what the block does."""
        self.server.plan = [
            (skip, event, functools.partial(self.meanwhile, value, asked, what, which))
            for skip, event, what, which in plan
        ]
        try:
            yield
        finally:
            self.server.plan = []

    def meanwhile(self, value: KubeObject, asked: int, what: str, which: int) -> None:
        mine, rival = self.instances[asked], self.instances[1 - asked]
        others = [each for each in self.truth.pods() if each["metadata"] != value["metadata"]]
        if what == "deliver":
            mine.deliver(["pods", "nodes", "quota"][which % 3], 1 + which % 3, bookmark=True)
        elif what in {"label", "delete"}:
            for each in self.truth.pods():
                if each["metadata"]["uid"] == value["metadata"]["uid"]:
                    self.change(each, what)
        elif what == "later":
            self.server.clock.seconds += 1 + which % 12
        else:
            asks = self.ask_predicates if which % 2 else self.ask_bind
            instance = mine if what == "another" else rival
            found = [value] if what == "rival" else _chosen(filter(pending, others), which)
            for each in found:
                if instance.caller.alive and not instance.busy_with(each["metadata"]["uid"]):
                    asks(instance, each)

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
    from tests.fakes.kube_rules import patched

    return patched(old, patch, "application/merge-patch+json")


def _bound(old: KubeObject, name: str) -> KubeObject:
    from tests.fakes.kube_rules import bound as bind

    return bind(old, {"target": {"name": name}})


def _replaced(old: KubeObject, new: KubeObject) -> KubeObject:
    metadata = {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
    return {**new, "metadata": {**old["metadata"], **metadata}}
