"""What pods and nodes of the API say about each other."""

from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.eligibility import (
    NO_DEMANDS,
    OPEN,
    Demands,
    Host,
    Operator,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from gpustack.model.request import BadRequest
from gpustack.wire.kube.eligibility import agent_silent, parse_demands, parse_host
from gpustack.wire.nodes import decode_node
from tests.cli import snapshots
from tests.cli.snapshots import KEYS

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def affine(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def test_a_node_says_its_labels_its_taints_and_whether_it_is_cordoned() -> None:
    node = {
        "metadata": {"name": "gpu1", "labels": {"zone": "a"}},
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
                {"key": "old", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ],
        },
    }
    taints = Taint(key="gpu", value="yes"), Taint(key="old", effect="NoExecute")
    assert parse_host(node) == Host(labels={"zone": "a"}, taints=taints, cordoned=True)
    assert parse_host({"metadata": {"name": "plain"}}) == OPEN
    assert parse_host({"metadata": {}, "spec": None, "status": None}) == OPEN


@pytest.mark.parametrize(
    ("addresses", "address"),
    [
        ([{"type": "Hostname", "address": "gpu1"}], ""),
        ([{"type": "ExternalIP", "address": "192.0.2.1"}], ""),
        (
            [
                {"type": "InternalIP", "address": "192.0.2.2"},
                {"type": "InternalIP", "address": "2001:db8::2"},
            ],
            "192.0.2.2",
        ),
        ([{"type": "InternalIP", "address": "2001:DB8:0::2"}], "2001:db8::2"),
        ([{"type": "InternalIP", "address": "example.com/x"}], ""),
        # A zone is a name of the node's own, of any length: a megabyte for each node that lies.
        ([{"type": "InternalIP", "address": "fe80::1%" + "x" * 100_000}], ""),
        ([{"type": "InternalIP"}, {}], ""),
    ],
)
def test_a_node_is_reached_at_its_first_internal_address(
    addresses: list[dict[str, str]], address: str
) -> None:
    node = {"metadata": {"name": "gpu1"}, "status": {"addresses": addresses}}
    assert parse_host(node).address == address


_NOT_READY: Final = {"type": "Ready", "status": "False"}


@pytest.mark.parametrize(
    ("kind", "status", "key"),
    [
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("DiskPressure", "True", "disk-pressure"),
        ("Ready", "True", None),
        ("DiskPressure", "False", None),
        ("Odd", "True", None),
    ],
)
def test_a_condition_counts_as_the_taint_that_is_made_of_it(
    kind: str, status: str, key: str | None
) -> None:
    node = {"status": {"conditions": [{"type": kind, "status": status}]}}
    expected = () if key is None else (Taint(key=f"node.kubernetes.io/{key}"),)
    assert parse_host(node).taints == expected
    tainted = {**node, "spec": {"taints": [{"key": each.key, "effect": each.effect}
                                           for each in expected]}}  # fmt: skip
    assert parse_host(tainted).taints == expected


@pytest.mark.parametrize(
    ("offered", "silent"),
    [
        ({"cpu": "8", KEYS.vcuda_core: "0"}, True),
        ({"cpu": "8"}, True),  # a kubelet forgets a plugin that stays away
        ({"cpu": "8", KEYS.vcuda_core: "100"}, False),
        ({KEYS.vcuda_core: "many"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_an_agent_is_silent_when_its_kubelet_offers_no_card(
    offered: dict[str, str] | None, silent: bool
) -> None:
    node = snapshots.node() | {"status": {"allocatable": offered}}
    assert agent_silent(KEYS, node, decode_node(KEYS, node)) is silent


def test_an_agent_without_healthy_cards_is_not_silent() -> None:
    lost = tuple(replace(card, healthy=False) for card in snapshots.CARDS)
    status = {"status": {"allocatable": {"cpu": "8"}}}
    node = snapshots.node(replace(snapshots.NODE, cards=lost)) | status
    assert not agent_silent(KEYS, node, decode_node(KEYS, node))
    other = {"metadata": {"name": "cpu1"}} | status
    assert not agent_silent(KEYS, other, decode_node(KEYS, other))


class _Counted(str):
    """A text that counts how often it is compared."""

    compared: ClassVar[int] = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return str(self) == other


def test_a_node_with_many_taints_and_conditions_is_read_once() -> None:
    """A node writes its conditions at any time, and its taints when it registers."""
    count = 1000
    taints = [{"key": _Counted(f"t{at}"), "effect": "NoSchedule"} for at in range(count)]
    node = {"spec": {"taints": taints}, "status": {"conditions": [_NOT_READY] * count}}
    _Counted.compared = 0
    assert len(parse_host(node).taints) == count + 1
    assert _Counted.compared < 10 * count


def test_a_pod_says_what_it_tolerates_and_what_it_wants() -> None:
    spec = {
        "nodeName": "gpu1",
        "nodeSelector": {"b": "2", "a": "1"},
        "schedulingGates": [{"name": "example.com/queue"}],
        "tolerations": [
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "spot", "value": "yes", "tolerationSeconds": 300},
            {"operator": "Exists"},
            {"key": "level", "operator": "Gt", "value": "900"},
        ],
        **affine(
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu1"]}]},
        ),
    }
    zone = Requirement(key="zone", operator=Operator.IN, values=("a", "b"))
    named = Requirement(key="metadata.name", operator=Operator.IN, values=("gpu1",))
    assert parse_demands({"spec": spec}) == Demands(
        tolerations=(
            Toleration(key="gpu", effect="NoSchedule"),
            Toleration(key="spot", value="yes"),
            Toleration(),
            Toleration(key="level", value="900", compared=Operator.GT),
        ),
        selector=(("a", "1"), ("b", "2")),
        affinity=(Term(labels=(zone,)), Term(fields=(named,))),
        gates=("example.com/queue",),
    )


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"tolerations": None, "nodeSelector": None, "affinity": {"podAffinity": {}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [1]}}},
    ],
)
def test_a_preference_or_a_missing_field_is_no_demand(spec: Any) -> None:
    assert parse_demands({"spec": spec}) == NO_DEMANDS


def expression(**changed: Any) -> dict[str, Any]:
    one = {"key": "a", "operator": "In", "values": ["1"], **changed}
    return affine({"matchExpressions": [one]})


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"tolerations": {}}, "spec.tolerations: must be an array"),
        ({"tolerations": [3]}, "spec.tolerations[0]: must be an object"),
        (
            {"tolerations": [{"operator": "Exist"}]},
            "spec.tolerations[0].operator: 'Exist' is not Equal, Exists, Gt or Lt",
        ),
        ({"tolerations": [{"value": "x"}]}, "spec.tolerations[0].operator: must be Exists"),
        (
            {"tolerations": [{"key": "a", "effect": "Never"}]},
            "spec.tolerations[0].effect: 'Never' is not one of NoSchedule,",
        ),
        ({"tolerations": [{"key": 1}]}, "spec.tolerations[0].key: must be a text"),
        ({"nodeSelector": {"a": True}}, "spec.nodeSelector[a]: must be a text; put True in quotes"),
        ({"nodeSelector": ["a"]}, "spec.nodeSelector: must be an object"),
        ({"affinity": "near"}, "spec.affinity: must be an object"),
        (affine("x"), f"{TERMS}[0]: must be an object"),
        (expression(operator="in"), f"{TERMS}[0].matchExpressions[0].operator: 'in' is not one of"),
        (expression(values=[]), f"{TERMS}[0].matchExpressions[0].values: must hold at least one"),
        (expression(values=[4]), f"{TERMS}[0].matchExpressions[0].values[0]: must be a text"),
        (expression(operator="Exists"), f"{TERMS}[0].matchExpressions[0].values: must be empty"),
        (
            expression(operator="Gt", values=["1", "2"]),
            f"{TERMS}[0].matchExpressions[0].values: must hold one whole number",
        ),
        (
            affine({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["1"]}]}),
            f"{TERMS}[0].matchFields[0].key: 'spec.x' is not metadata.name",
        ),
    ],
)
def test_a_spec_that_the_api_server_would_refuse_is_named_by_field(spec: Any, problem: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_demands({"spec": spec})
    assert str(caught.value).startswith(problem)


NAMES = st.sampled_from(
    [
        *("tolerations", "nodeSelector", "affinity", "nodeAffinity", REQUIRED, "schedulingGates"),
        *("nodeSelectorTerms", "matchExpressions", "matchFields", "key", "operator", "values"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "In", "Exists", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(NAMES, JSON))
def test_any_spec_is_read_or_refused_by_field(spec: dict[str, Any]) -> None:
    refused = ""
    try:
        parse_demands({"spec": spec})
    except BadRequest as error:
        refused = error.field
    assert not refused or refused.startswith("spec.")
