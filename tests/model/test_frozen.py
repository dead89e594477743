"""Answers and clusters are values: equal ones hash alike, they pickle, and they never change."""

import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster import what_if
from gpustack.model.cluster.cluster import Cluster, Pod, settle
from gpustack.model.cluster.eligibility import Host
from gpustack.model.explain import explanation
from gpustack.model.frozen import FrozenMap
from gpustack.model.node import Node
from gpustack.model.quota.quota import NamespaceQuota, Quota
from tests.model.machines import card, grouped, pod

NODE = Node(name="n", cards=(card(0), card(1)), links=grouped(2, within="PIX"))
QUOTA = Quota(namespaces={"team": NamespaceQuota(cards={"T4": 100})})
CLUSTER = Cluster(nodes={"n": NODE}, quota=QUOTA, hosts={"n": Host(labels={"a": "b"})})
BIG = Pod(namespace="other", name="big", request=pod((300, 0)))
VALUES = [
    NODE,
    QUOTA,
    CLUSTER,
    settle([NODE], [], QUOTA),
    what_if.with_more(CLUSTER, "n", 2),
    what_if.without_nodes(CLUSTER, ["n"]),
    what_if.plan(CLUSTER, [BIG]),
    explanation.explain(CLUSTER, BIG),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_from_another_process_is_equal_and_has_the_same_hash(
    value: object,
) -> None:
    copy = pickle.loads(pickle.dumps(value))  # noqa: S301  # our own bytes
    assert copy == value
    assert hash(copy) == hash(value)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_no_field_of_a_value_can_be_changed(value: Any) -> None:
    for field in fields(value):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field.name, None)
        assert not isinstance(getattr(value, field.name), dict | list | set)


def test_a_cluster_does_not_change_with_the_mapping_that_it_was_made_of() -> None:
    nodes = {"n": NODE}
    cluster = Cluster(nodes=nodes)
    nodes.clear()
    assert list(cluster.nodes) == ["n"]


@given(st.dictionaries(st.text(), st.integers()))
def test_a_frozen_mapping_is_equal_to_what_it_was_made_of(pairs: dict[str, int]) -> None:
    frozen = FrozenMap(pairs)
    backwards = FrozenMap(dict(reversed(pairs.items())))
    assert frozen == pairs
    assert frozen == backwards
    assert hash(frozen) == hash(backwards)
    assert list(frozen.items()) == list(pairs.items())
