"""What the pods of a node hold of its cards."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.node import Node
from gpustack.model.request import ContainerKind
from gpustack.model.use import Use
from gpustack.wire.pods import (
    holding,
    usage,
)
from gpustack.wire.user_keys import names_of
from tests.model.machines import card
from tests.wire.api import KEYS, container, pod

HERE = Node(name="n1", cards=(card(0), card(1)))


def decided(minors: str = "1", **other: Any) -> dict[str, Any]:
    annotations = {
        KEYS.predicate_time: "1700000000000000000",
        KEYS.predicate_node: "n1",
        KEYS.idx(ContainerKind.APP, 0): minors,
        KEYS.gpu_assigned: "false",
    }
    return pod(container("50", "32"), annotations=annotations, **other)


@pytest.mark.parametrize(
    "holder",
    [
        decided(),
        decided(node="n1", phase="Running"),
        decided(node="n1", phase="Unknown"),
        decided(node="n1") | {"metadata": decided()["metadata"] | {"deletionTimestamp": "now"}},
    ],
)
def test_reserved_bound_and_terminating_pods_hold_their_cards(holder: dict[str, Any]) -> None:
    assert usage(KEYS, HERE, [holder]).uses == (Use(), Use(cores=50, memory_units=32))


@pytest.mark.parametrize(
    "other",
    [
        decided(node="n1", phase="Succeeded"),
        decided(node="n1", phase="Failed"),
        decided(node="n2"),
        decided("0,1"),
        decided("-1"),
        pod(container("50", "32"), node="n1"),
        pod(container(), annotations=decided()["metadata"]["annotations"]),
        pod(container("150"), annotations=decided()["metadata"]["annotations"]),
        {},
    ],
)
def test_finished_undecided_unjustified_and_foreign_pods_hold_nothing(
    other: dict[str, Any],
) -> None:
    assert usage(KEYS, HERE, [other]) == HERE


@pytest.mark.parametrize("beside", [container(None, "8"), container("50"), container("x", "8")])
def test_a_bound_pod_holds_its_cards_whatever_its_other_containers_ask(
    beside: dict[str, Any],
) -> None:
    holder = decided(node="n1", phase="Running")
    holder["spec"]["containers"].append(beside)
    assert usage(KEYS, HERE, [holder]).uses == (Use(), Use(cores=50, memory_units=32))
    waiting = decided()
    waiting["spec"]["containers"].append(beside)
    assert usage(KEYS, HERE, [waiting]) == HERE


USER_KEYS = names_of(KEYS)


@given(
    st.dictionaries(st.sampled_from(USER_KEYS), st.one_of(st.text(), st.just("x" * 250_000))),
    st.sampled_from(["", "n1"]),
)
def test_no_user_key_frees_the_cards_of_its_pod(written: dict[str, str], node: str) -> None:
    holder = decided(node=node)
    holder["metadata"]["annotations"] |= written
    assert usage(KEYS, HERE, [holder]).uses == (Use(), Use(cores=50, memory_units=32))


def test_over_commit_is_counted_never_dropped() -> None:
    over = usage(KEYS, HERE, [decided(), decided(), decided()])
    assert over.uses[1] == Use(cores=150, memory_units=96)
    assert over.free_cores(1) == 0


def test_a_card_that_the_node_lost_is_held_by_no_pod() -> None:
    assert usage(KEYS, HERE, [decided("7")]) == HERE


def test_an_allocation_names_its_pod_and_whether_it_is_bound() -> None:
    held = holding(KEYS, decided(node="n1"))
    assert held is not None
    assert (held.namespace, held.name, held.uid, held.bound) == ("default", "p", "uid-p", True)
    reserved = holding(KEYS, decided())
    assert reserved is not None
    assert not reserved.bound
