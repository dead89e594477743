"""Lists, reads and watches in the wrong order: what is gone stays gone, and a list is believed."""

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cache.cache import ClusterCache
from extender.cache.decode import NodeState
from extender.cache.pods import PodState
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from tests.extender.client import eventually
from tests.extender.mini_cluster import node, pod, serving
from tests.extender.states import bound, known, running, view, waiting
from tests.fakes.kube_api import FakeKubeApi
from tests.model import machines

CARD = machines.pod((100, 0))


def host(name: str = "n0", cards: int = 2) -> Node:
    made = (machines.card(minor, uuid=f"{name}-{minor}") for minor in range(cards))
    return Node(name=name, cards=tuple(made))


def cluster() -> ClusterCache:
    seen = view()
    seen.set_node(known(host()))
    return seen


def free(seen: ClusterCache, name: str = "n0") -> int:
    found = seen.node(name)
    return 0 if found is None else sum(use.idle for use in found.uses)


@pytest.mark.parametrize("bump", [0, 10**9])
def test_the_extender_follows_a_restored_store(api: FakeKubeApi, tmp_path: Path, bump: int) -> None:
    """Restored before the pod was bound and a card was lost; versions go back, or far ahead."""
    moved = [0.0]
    api.create("nodes", node("gpu1", 2))
    with serving(api, tmp_path, clock=lambda: time.monotonic() + moved[0]) as mini:
        created = mini.sees(mini.create(pod("a", 100)))
        backup = api.store.backup()
        api.edit("nodes", "gpu1", node("gpu1", 1))
        assert mini.ask(created)["NodeNames"] == ["gpu1"]
        mini.sees(mini.bind("a", "gpu1"))
        eventually(lambda: mini.free_cores("gpu1") == 0)
        attempts = [api.faults.hold("GET", f"/{each}$") for each in ("pods", "nodes")]
        api.drop_connections()
        eventually(lambda: all(each.reached.is_set() for each in attempts))
        moved[0] = 20.0
        api.store.restore(backup, bump=bump)
        for each in attempts:
            each.release()
        eventually(lambda: mini.free_cores("gpu1") == 200)
        assert mini.ask(created)["NodeNames"] == ["gpu1"]


def test_a_list_of_lower_versions_replaces_what_is_known() -> None:
    seen = cluster()
    before = waiting("a", CARD)
    seen.pod_event("ADDED", before)
    bound(seen, "b", CARD, "n0")
    placement = place(host(), CARD)
    assert isinstance(placement, Placement)
    seen.pod_event("MODIFIED", running(before, placement))
    old = known(host(cards=3))
    seen.set_node(known(host()))
    seen.begin_nodes()
    seen.sync_nodes([old], old.version)
    seen.begin_pods()
    seen.sync_pods([before], before.version)  # "b" was made after the backup
    assert free(seen) == 3
    assert seen.pod("a") == replace(before, followed=True)
    assert seen.pod("b") is None


class History:
    """Nodes and pods that come, change and go, in any order of versions."""

    def __init__(self, rolled: random.Random) -> None:
        self.rolled = rolled
        self.seen = view()
        self.names = [f"n{at}" for at in range(3)]

    def pod(self) -> PodState:
        """A pod that waits, or runs on any card of any node, or has ended."""
        uid = f"p{self.rolled.randrange(4)}"
        made = waiting(uid, CARD, version=self.rolled.randint(1, 50))
        placement = place(host(self.rolled.choice(self.names)), CARD)
        assert isinstance(placement, Placement)
        match self.rolled.randrange(3):
            case 0:
                return made
            case 1:
                return running(made, placement, version=made.version)
        return running(made, placement, version=made.version, finished=True)

    def node(self) -> NodeState:
        made = host(self.rolled.choice(self.names), self.rolled.randint(1, 3))
        return NodeState(node=made, version=self.rolled.randint(1, 50))

    def step(self) -> None:
        kind = self.rolled.choice(["ADDED", "MODIFIED", "DELETED"])
        match self.rolled.randrange(4):
            case 0:
                self.seen.pod_event(kind, self.pod())
            case 1:
                self.seen.node_event(kind, self.node())
            case 2:
                self.seen.add_pod(self.pod())
            case 3:
                self.seen.set_node(self.node())


def shown(seen: ClusterCache) -> object:
    """What decides: the nodes as they are used, who holds what, and the pods."""
    nodes = {name: seen.node(name) for name in seen.node_names}
    held = {pod.uid: seen.placement(pod.uid) for pod in seen.pods}
    return nodes, held, {pod.uid: replace(pod, followed=False) for pod in seen.pods}


@given(st.randoms(use_true_random=False), st.integers(0, 30), st.integers(0, 60))
def test_a_list_is_the_whole_truth_whatever_was_known(
    rolled: random.Random, steps: int, version: int
) -> None:
    """Nothing is read beside it, so a cache that starts with it knows the same."""
    past, fresh = History(rolled), view()
    for _ in range(steps):
        past.step()
    pods = {each.uid: each for each in (past.pod() for _ in range(rolled.randrange(5)))}
    nodes = {each.node.name: each for each in (past.node() for _ in range(rolled.randrange(4)))}
    for seen in (past.seen, fresh):
        seen.begin_nodes()
        seen.sync_nodes(list(nodes.values()), version)
        seen.begin_pods()
        seen.sync_pods(list(pods.values()), version)
    assert shown(past.seen) == shown(fresh)


def test_a_pod_comes_back_that_was_deleted_after_the_backup() -> None:
    seen, asked = cluster(), waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    seen.pod_event("DELETED", replace(asked, version=asked.version + 1))
    seen.begin_pods()
    seen.sync_pods([asked], asked.version)
    assert seen.add_pod(asked) is not None
    assert seen.pod("a") is not None


def test_a_decision_of_the_lost_history_holds_no_cards() -> None:
    seen, asked = cluster(), waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    placement = place(host(), CARD)
    assert isinstance(placement, Placement)
    later = replace(asked, version=asked.version + 5)
    seen.pod_event("MODIFIED", later)
    seen.doubt("a", seen.assume("a", placement))
    seen.begin_pods()
    seen.sync_pods([asked], asked.version)
    assert seen.placement("a") is None
    assert not seen.is_doubtful("a")


@pytest.mark.parametrize("shown", ["list", "event"])
def test_a_stale_read_brings_back_no_pod_that_no_list_named(shown: str) -> None:
    seen, asked = cluster(), waiting("a", CARD)
    placement = place(host(), CARD)
    assert isinstance(placement, Placement)
    stale = replace(running(asked, placement), version=asked.version)
    if shown == "list":
        seen.sync_pods([], asked.version + 10)
    else:
        seen.pod_event("ADDED", waiting("b", None))
    assert seen.add_pod(stale) is None
    assert seen.pod("a") is None
    assert free(seen) == 2
    newer = replace(stale, version=asked.version + 11)
    assert seen.add_pod(newer) == newer


def test_a_stale_read_of_a_pod_without_cards_is_answered() -> None:
    """The cache keeps no such pod, so that it is unknown says nothing."""
    seen, other = cluster(), waiting("a", None, node="n0")
    seen.sync_pods([other], other.version + 10)
    assert seen.add_pod(other) == other


@pytest.mark.parametrize("shown", ["list", "event"])
def test_a_stale_read_brings_back_no_node(shown: str) -> None:
    seen, stale = cluster(), known(host("n1"))
    if shown == "list":
        seen.sync_nodes([known(host())], stale.version + 1)
    else:
        seen.node_event("DELETED", known(host("n1")))
    seen.set_node(stale)
    assert seen.node_names == {"n0"}
    seen.set_node(known(host("n1")))
    assert seen.node_names == {"n0", "n1"}


def test_a_list_removes_no_node_that_was_read_later_than_it() -> None:
    seen, listed = cluster(), known(host())
    seen.begin_nodes()
    seen.set_node(known(host("n1")))
    seen.sync_nodes([listed], listed.version)
    assert seen.node_names == {"n0", "n1"}
