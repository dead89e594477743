"""Decisions of this instance and states of the API server: the later holds; room is reported."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.cache.cache import ClusterCache
from extender.cache.pods import PodState
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.wire.annotations import Decision
from tests.extender.states import bound, known, running, view, waiting
from tests.model.machines import card, pod

CARD = pod((100, 0))
OURS = ("n0", 0)


def host(name: str, *, healthy: bool = True) -> Node:
    made = (card(minor, uuid=f"{name}-{minor}", healthy=healthy) for minor in (0, 1))
    return Node(name=name, cards=tuple(made))


def cards(name: str, minor: int) -> Placement:
    """One card of a node for a pod that asks for one."""
    found = place(host(name), CARD)
    assert isinstance(found, Placement)
    only = replace(found.containers[0], minors=(minor,), uuids=(f"{name}-{minor}",))
    return replace(found, containers=(only,))


def cluster() -> ClusterCache:
    seen = view()
    for name in ("n0", "n1"):
        seen.set_node(known(host(name)))
    return seen


def decided(asked: PodState, *where: tuple[str, int], **fields: object) -> PodState:
    """The pod one version later, with a decision of another writer, or none."""
    decision = None
    if where:
        placement = cards(*where[0])
        decision = Decision(
            node=placement.node, time_ns=10**18, assigned=False, placement=placement
        )
    changes = {"decision": decision, "version": asked.version + 1, **fields}
    return replace(asked, **changes)  # type: ignore[arg-type]


Later = Callable[[PodState], PodState]
LATER: dict[str, tuple[Later, tuple[str, int] | None]] = {
    "bound elsewhere, without cards": (lambda asked: decided(asked, node="n1"), None),
    "bound there, without cards": (lambda asked: decided(asked, node="n0"), None),
    "bound elsewhere": (lambda asked: decided(asked, ("n1", 1), node="n1"), ("n1", 1)),
    "bound there with other cards": (lambda asked: decided(asked, ("n0", 1), node="n0"), ("n0", 1)),
    "reserved elsewhere": (lambda asked: decided(asked, ("n1", 0)), ("n1", 0)),
    "reserved there with other cards": (lambda asked: decided(asked, ("n0", 1)), ("n0", 1)),
    "finished": (lambda asked: decided(asked, finished=True), None),
    "gated": (lambda asked: decided(asked, gated=True), None),
    "changed": (lambda asked: decided(asked, labels_text=b"{}"), OURS),
    "about to end": (lambda asked: decided(asked, deletion=True), OURS),
}


@pytest.mark.parametrize("doubtful", [True, False])
@pytest.mark.parametrize("later", LATER)
def test_the_latest_state_of_a_pod_decides_its_cards(later: str, doubtful: bool) -> None:
    change, where = LATER[later]
    if doubtful and where == OURS:
        where = None  # the lost write can't take effect any more
    seen, asked = cluster(), waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    time_ns = seen.assume("a", cards(*OURS))
    if doubtful:
        seen.doubt("a", time_ns)
    seen.pod_event("MODIFIED", change(asked))
    assert seen.placement("a") == (None if where is None else cards(*where))
    free = {
        (name, minor)
        for name in ("n0", "n1")
        for minor in (0, 1)
        if (found := seen.node(name)) is not None and found.uses[minor].idle
    }
    assert len(free) == (4 if where is None else 3)
    assert where not in free
    # The placement stays so, whether the write takes effect or not.
    seen.forget("a", time_ns)
    assert (seen.placement("a") is not None) is (where not in {None, OURS})


@pytest.mark.parametrize("gone", ["watch", "404", "list"])
def test_a_pod_that_is_gone_leaves_nothing_and_stays_gone(gone: str) -> None:
    seen, asked = cluster(), waiting("a", CARD)
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 200})}))
    seen.pod_event("ADDED", asked)
    time_ns = seen.assume("a", cards(*OURS))
    seen.doubt("a", time_ns)
    assert seen.usage.used("default", "P40") == 100
    if gone == "watch":
        seen.pod_event("DELETED", asked)
    elif gone == "404":
        seen.remove_pod("a")
    else:
        seen.sync_pods([], asked.version)
    late = decided(asked, OURS)
    assert seen.add_pod(late) is None  # the answer to an earlier write
    seen.learn_pods([late])
    assert seen.pod("a") is None
    assert seen.placement("a") is None
    assert seen.reservations == 0
    assert seen.usage.used("default", "P40") == 0
    seen.pod_event("MODIFIED", asked)  # the watch is behind, and will show the deletion later
    assert seen.placement("a") is None
    # Another pod of the name begins without cards.
    seen.pod_event("ADDED", waiting("b", CARD, name="a"))
    assert seen.placement("b") is None


@pytest.mark.parametrize("between", ["reserved elsewhere", "gated"])
def test_a_replaced_decision_stays_away(between: str) -> None:
    seen, asked = cluster(), waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    seen.assume("a", cards(*OURS))
    shown = LATER[between][0](asked)
    seen.pod_event("MODIFIED", shown)
    seen.pod_event("MODIFIED", decided(shown, gated=False))
    assert seen.placement("a") is None


def test_a_list_removes_no_pod_that_was_read_later_than_it() -> None:
    seen, asked = cluster(), waiting("a", CARD)
    seen.begin_pods()
    seen.add_pod(asked)
    seen.assume("a", cards(*OURS))
    seen.sync_pods([], asked.version - 1)
    assert seen.placement("a") == cards(*OURS)


def test_a_watch_that_is_behind_keeps_a_newer_read_of_a_node() -> None:
    seen = cluster()
    before, read = known(host("n0")), known(host("n0", healthy=False))
    seen.set_node(read)
    seen.node_event("MODIFIED", before)
    assert seen.base("n0") == read.node
    seen.begin_nodes()
    seen.set_node(read)
    seen.sync_nodes([before], before.version)
    assert seen.base("n0") == read.node
    # A node that was gone in between may have any version.
    seen.node_event("DELETED", read)
    seen.node_event("ADDED", before)
    assert seen.base("n0") == before.node


def test_a_lost_write_is_in_doubt_until_the_pod_changes() -> None:
    seen, asked = cluster(), waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    first = seen.assume("a", cards(*OURS))
    assert not seen.is_doubtful("a")
    seen.doubt("a", first)
    assert seen.is_doubtful("a")
    second = seen.assume("a", cards(*OURS))
    seen.doubt("a", first)  # this doubt is about an earlier decision
    assert not seen.is_doubtful("a")
    seen.doubt("a", second)
    seen.pod_event("MODIFIED", decided(asked, labels_text=b"{}"))
    assert not seen.is_doubtful("a")
    assert seen.placement("a") is None


def test_a_lost_write_on_a_changed_pod_leaves_nothing() -> None:
    seen, asked = cluster(), waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    time_ns = seen.assume("a", cards(*OURS))
    seen.pod_event("MODIFIED", decided(asked, labels_text=b"{}"))
    assert seen.placement("a") == cards(*OURS)  # its write is under way
    seen.doubt("a", time_ns)
    assert seen.placement("a") is None


def test_cards_of_a_missing_node_count_in_the_quota() -> None:
    seen = cluster()
    bound(seen, "t", CARD, "n0")
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 200})}))
    assert seen.usage.used("default", "P40") == 100
    seen.drop_node("n0")
    assert seen.usage.used("default", "P40") == 100
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 300})}))
    assert seen.usage.used("default", "P40") == 100
    seen.set_node(known(host("n0")))
    assert seen.usage.used("default", "P40") == 100
    asked = waiting("a", CARD)
    seen.pod_event("ADDED", asked)
    here = decided(asked, OURS)
    seen.pod_event("MODIFIED", here)
    assert seen.usage.used("default", "P40") == 200
    seen.pod_event("MODIFIED", decided(here, ("n9", 0)))
    assert seen.usage.used("default", "P40") == 200


# Room wakes the pods that wait for it.


def _ends(seen: ClusterCache) -> None:
    seen.pod_event("DELETED", running(waiting("t", CARD), cards("n0", 0)))


def _finishes(seen: ClusterCache) -> None:
    there = seen.pod("t")
    assert there is not None
    seen.pod_event("MODIFIED", replace(there, finished=True, version=there.version + 1000))


def _gives_up(seen: ClusterCache) -> None:
    first = seen.pod("first")
    assert first is not None
    seen.pod_event("MODIFIED", replace(first, nominated="", version=first.version + 1000))


def _goes(seen: ClusterCache) -> None:
    seen.remove_pod("first")


def _taken_back(seen: ClusterCache) -> None:
    seen.forget("reserved", seen.assume("reserved", cards("n1", 1)))


def _raised(seen: ClusterCache) -> None:
    seen.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"P40": 300})}))


def _comes(seen: ClusterCache) -> None:
    seen.set_node(known(host("n2")))


def _recovers(seen: ClusterCache) -> None:
    seen.sync_nodes([known(host("n0")), known(replace(host("n1"), pool="other"))], 1)


def _is_reserved(seen: ClusterCache) -> None:
    seen.assume("reserved", cards("n1", 1))


def _arrives(seen: ClusterCache) -> None:
    seen.pod_event("ADDED", waiting("more", CARD))


def _same_again(seen: ClusterCache) -> None:
    seen.set_node(known(host("n1")))
    seen.set_quota(seen.quota)


MAKES_ROOM = (_ends, _finishes, _gives_up, _goes, _taken_back, _raised, _comes, _recovers)
MAKES_NONE = (_is_reserved, _arrives, _same_again)


@pytest.mark.parametrize("happens", [*MAKES_ROOM, *MAKES_NONE])
def test_only_an_event_that_frees_room_wakes_waiting_pods(
    happens: Callable[[ClusterCache], None],
) -> None:
    heard: list[str] = []
    seen = view()
    seen.on_room = lambda: heard.append("room")
    for name in ("n0", "n1"):
        seen.set_node(known(host(name)))
    bound(seen, "t", CARD, "n0")
    seen.pod_event("ADDED", waiting("first", CARD, nominated="n0", priority=5))
    seen.pod_event("ADDED", waiting("reserved", CARD))
    heard.clear()
    happens(seen)
    assert bool(heard) is (happens in MAKES_ROOM)
    heard.clear()
    seen.expire()
    assert not heard  # room is reported once
