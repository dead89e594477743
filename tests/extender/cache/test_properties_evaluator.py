"""Remembered results of nodes equal the results of a fresh search."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cache.node_evaluator import NodeEvaluator
from extender.cache.pods import PodState
from gpustack.model import equivalence, policies
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement, apply
from gpustack.model.quota.quota import NO_QUOTA
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Reason, Refusal
from tests.extender.states import known, running, view, waiting
from tests.model.clusters import NAMESPACES, POOLS, quota, small_pod
from tests.model.machines import dice, machine

NAMES = ("n0", "n1", "n2")


class Truth:
    """The events so far, counted anew for every request; and the cache and evaluator beside it."""

    def __init__(self, rolled: random.Random, policy: policies.Policy) -> None:
        self.rolled = rolled
        self.view = view()
        self.answers = NodeEvaluator(self.view, policy)
        self.bases: dict[str, Node] = {}
        self.pods: dict[str, PodState] = {}
        self.held: dict[str, Placement] = {}
        self.quota = NO_QUOTA
        self.before: dict[str, Usage] = {}  # of each pod that has a quota
        self.numbers = itertools.count()

    def node(self, name: str, without: str = "") -> Node:
        found = self.bases[name]
        for uid, placement in self.held.items():
            if uid != without and placement.node == name:
                found = apply(found, placement)
        return found

    def usage(self) -> Usage:
        counted = Usage()
        for uid, placement in self.held.items():
            where, owner = placement.node, self.pods[uid]
            node = self.bases.get(where) or Node(name=where)
            before = self.before.get(uid)
            counted.put(uid, owner.namespace, owner.name, node, placement, before=before)
        return counted

    def remember(self) -> None:
        """Keep which models pods were counted on; without a quota they aren't."""
        now = self.usage()
        limited = (uid for uid in self.held if self.quota.of(self.pods[uid].namespace))
        self.before = dict.fromkeys(limited, now)

    def step(self) -> None:
        steps = (self.set_node, self.drop_node, self.run, self.reserve, self.end, self.limit)
        self.rolled.choices(steps, weights=(3, 1, 6, 3, 3, 1))[0]()
        self.remember()

    def set_node(self) -> None:
        name = self.rolled.choice(NAMES)
        made = machine(self.rolled, self.rolled.randint(1, 3), name)
        if self.bases and self.rolled.random() < 0.5:
            made = replace(self.rolled.choice(list(self.bases.values())), name=name)
        self.bases[name] = replace(made, pool=self.rolled.choice(POOLS))
        self.view.set_node(known(self.bases[name]))

    def drop_node(self) -> None:
        name = self.rolled.choice(NAMES)
        self.bases.pop(name, None)
        self.view.drop_node(name)

    def asking(self) -> PodState:
        some = self.rolled.choice(list(self.bases.values()))
        request = small_pod(self.rolled, some)
        made = waiting(f"p{next(self.numbers)}", request, namespace=self.rolled.choice(NAMESPACES))
        self.pods[made.uid] = made
        return made

    def run(self) -> None:
        """A pod is bound to any node, with or without room."""
        if not self.bases:
            return
        made, base = self.asking(), self.rolled.choice(list(self.bases.values()))
        found = place(base, made.request) if made.request is not None else None
        if isinstance(found, Placement):
            self.held[made.uid] = found
            self.view.pod_event("ADDED", running(made, found))

    def reserve(self) -> None:
        """A pod asks, and gets the best answer."""
        if not self.bases:
            return
        made = self.asking()
        self.view.pod_event("ADDED", made)
        said = self.answers.of(made, NAMES)
        best = said.best()
        if best is not None:
            placement = self.answers.placement(made, *best)
            self.view.assume(made.uid, placement)
            self.held[made.uid] = placement

    def end(self) -> None:
        if self.pods:
            uid = self.rolled.choice(list(self.pods))
            self.held.pop(uid, None)
            self.view.pod_event("DELETED", self.pods.pop(uid))

    def limit(self) -> None:
        self.quota = self.rolled.choice([NO_QUOTA, quota(self.rolled)])
        self.view.set_quota(self.quota)

    def check(self, asked: PodState) -> None:
        said = self.answers.of(asked, NAMES)
        usage, own = self.usage(), (asked.uid,)
        policy = self.answers.policy

        limited = within(self.quota, usage, asked.namespace, policy, without=own)
        for name in NAMES:
            if name not in self.bases:
                assert said.of(name).reason is Reason.NODE_UNKNOWN
                continue
            node = self.node(name, without=asked.uid)
            assert self.view.node(name, without=asked.uid) == node
            assert asked.request is not None
            wanted = limited(node, asked.request)
            if isinstance(wanted, Refusal):
                assert said.of(name).reason is wanted.reason
                assert self.answers.refusal(asked, name) == wanted
            else:
                assert said.of(name).reason is None
                assert self.answers.placement(asked, name, said.of(name)) == wanted
                strategy = policy.read(asked.request).node_strategy
                rank = policy.increase(node, wanted), policy.fullness(node, strategy)
                assert said.of(name).rank == rank


@pytest.mark.parametrize("small", [False, True])
@given(dice, st.integers(3, 14), st.sampled_from(policies.NAMES))
def test_answers_from_memory_are_those_of_the_nodes_as_they_are(
    small: bool, rolled: random.Random, steps: int, policy: str
) -> None:
    """``small``: a memory that is always full."""
    with pytest.MonkeyPatch.context() as patch:
        for bound in ("_MOST_BYTES", "_MOST_STATE_BYTES", "_SPARE") if small else ():
            patch.setattr(equivalence, bound, 3000 if bound.endswith("BYTES") else 0)
        live(rolled, steps, policy)


def live(rolled: random.Random, steps: int, policy: str) -> None:
    """Let events happen, and ask again and again for the waiting pods."""
    truth = Truth(rolled, policies.named(policy))
    truth.set_node()
    asked: list[PodState] = []
    for _ in range(steps):
        truth.step()
        if truth.bases and (not asked or rolled.random() < 0.4):
            asked.append(truth.asking())
            truth.view.pod_event("ADDED", asked[-1])
        for each in asked:
            if each.uid in truth.pods:
                truth.check(each)
