"""The nodes that take a pod: the cases of the Kubernetes documentation, and their identities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.cluster.eligibility import (
    NO_DEMANDS,
    OPEN,
    OWN_TAINTS,
    UNSCHEDULABLE,
    Demands,
    Host,
    Operator,
    Requirement,
    Taint,
    Term,
    Toleration,
    in_service,
    out_of_service,
    refusal,
    refusals,
    states,
)
from gpustack.model.refusal import Reason

GPU = Taint(key="nvidia.com/gpu", value="present")
NOT_READY = Taint(key="node.kubernetes.io/not-ready")


def reason(demands: Demands, host: Host, name: str = "gpu1") -> Reason | None:
    found = refusal(demands, name, host)
    return None if found is None else found.reason


def tolerating(**toleration: str | None) -> Demands:
    return Demands(tolerations=(Toleration(**toleration),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu"}, True),
        ({}, True),
        ({"effect": "NoSchedule"}, True),
        ({"effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "value": "absent"}, False),
        ({"key": "nvidia.com/gpu", "value": ""}, False),
        ({"key": "other"}, False),
    ],
)
def test_a_taint_bars_a_pod_that_does_not_tolerate_it(
    toleration: dict[str, str | None], tolerated: bool
) -> None:
    host = Host(taints=(GPU,))
    expected = None if tolerated else Reason.TAINT_NOT_TOLERATED
    assert reason(tolerating(**toleration), host) is expected


@pytest.mark.parametrize(
    ("operator", "value", "taint", "tolerated"),
    [
        (Operator.GT, "900", "950", True),
        (Operator.GT, "950", "950", False),
        (Operator.GT, "1000", "950", False),
        (Operator.LT, "1000", "950", True),
        (Operator.LT, "950", "950", False),
        (Operator.GT, "900", "high", False),
        (Operator.GT, "low", "950", False),
    ],
)
def test_a_taint_is_tolerated_beyond_a_number(
    operator: Operator, value: str, taint: str, tolerated: bool
) -> None:
    host = Host(taints=(Taint(key="level", value=taint),))
    demands = Demands(tolerations=(Toleration(key="level", value=value, compared=operator),))
    assert reason(demands, host) is (None if tolerated else Reason.TAINT_NOT_TOLERATED)


@pytest.mark.parametrize(
    ("effect", "bars"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_a_taint_that_is_a_preference_bars_no_pod(effect: str, bars: bool) -> None:
    host = Host(taints=(Taint(key="a", effect=effect),))
    assert (reason(NO_DEMANDS, host) is Reason.TAINT_NOT_TOLERATED) == bars


def test_a_refusal_names_the_first_taint_that_the_pod_does_not_tolerate() -> None:
    host = Host(taints=(GPU, Taint(key="spot", effect="NoExecute")))
    found = refusal(tolerating(key="nvidia.com/gpu"), "gpu1", host)
    assert found is not None
    assert found.detail == "node gpu1 has the taint spot:NoExecute, which the pod does not tolerate"


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    host = Host(cordoned=True)
    assert reason(NO_DEMANDS, host) is Reason.NODE_UNSCHEDULABLE
    assert reason(tolerating(key=UNSCHEDULABLE), host) is None
    assert reason(tolerating(key=UNSCHEDULABLE, effect="NoExecute"), host) is not None


def test_a_node_selector_wants_every_label() -> None:
    demands = Demands(selector=(("disk", "ssd"), ("zone", "a")))
    assert reason(demands, Host(labels={"disk": "ssd", "zone": "a", "more": ""})) is None
    assert reason(demands, Host(labels={"disk": "ssd"})) is Reason.NODE_SELECTOR_UNMET
    found = refusal(demands, "gpu1", Host(labels={"disk": "hdd"}))
    assert found is not None
    assert found.detail == "node gpu1 has disk=hdd; the pod's nodeSelector wants disk=ssd"


LABELS = {"zone": "a", "cards": "8", "odd": "8x", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "met"),
    [
        ("zone", Operator.IN, ("a", "b"), True),
        ("zone", Operator.IN, ("b",), False),
        ("absent", Operator.IN, ("a",), False),
        ("zone", Operator.NOT_IN, ("b",), True),
        ("zone", Operator.NOT_IN, ("a",), False),
        ("absent", Operator.NOT_IN, ("a",), True),
        ("empty", Operator.EXISTS, (), True),
        ("absent", Operator.EXISTS, (), False),
        ("absent", Operator.DOES_NOT_EXIST, (), True),
        ("zone", Operator.DOES_NOT_EXIST, (), False),
        ("cards", Operator.GT, ("7",), True),
        ("cards", Operator.GT, ("8",), False),
        ("cards", Operator.LT, ("9",), True),
        ("cards", Operator.LT, ("-9",), False),
        ("odd", Operator.GT, ("1",), False),
        ("odd", Operator.LT, ("99",), False),
        ("absent", Operator.LT, ("99",), False),
        ("cards", Operator.GT, ("x",), False),
    ],
)
def test_requirements_compare_labels_as_the_documentation_says(
    key: str, operator: Operator, values: tuple[str, ...], met: bool
) -> None:
    required = Requirement(key=key, operator=operator, values=values)
    demands = Demands(affinity=(Term(labels=(required,)),))
    assert reason(demands, Host(labels=LABELS)) is (None if met else Reason.NODE_AFFINITY_UNMET)


def test_one_matching_term_is_enough_and_an_empty_term_matches_no_node() -> None:
    zone = Requirement(key="zone", operator=Operator.IN, values=("a",))
    other = Requirement(key="other", operator=Operator.EXISTS)
    host = Host(labels=LABELS)
    assert reason(Demands(affinity=(Term(labels=(other,)), Term(labels=(zone,)))), host) is None
    assert reason(Demands(affinity=(Term(labels=(other, zone)),)), host) is not None
    assert reason(Demands(affinity=(Term(),)), host) is Reason.NODE_AFFINITY_UNMET
    assert reason(Demands(affinity=()), host) is Reason.NODE_AFFINITY_UNMET


def test_a_node_is_found_by_its_name() -> None:
    here = Requirement(key="metadata.name", operator=Operator.IN, values=("gpu1",))
    demands = Demands(affinity=(Term(fields=(here,)),))
    assert reason(demands, OPEN, "gpu1") is None
    assert reason(demands, OPEN, "gpu2") is Reason.NODE_AFFINITY_UNMET


def test_a_pod_with_scheduling_gates_fits_no_node() -> None:
    found = refusal(Demands(gates=("example.com/queue",)), "gpu1", OPEN)
    assert found is not None
    assert found.reason is Reason.SCHEDULING_GATED
    assert "example.com/queue" in found.detail


def test_only_kubernetes_itself_takes_a_node_out_of_service() -> None:
    assert not out_of_service(Host(taints=(GPU,)))
    assert out_of_service(Host(cordoned=True))
    assert out_of_service(Host(taints=(NOT_READY,)))


keys = st.sampled_from(["a", "b", "node.kubernetes.io/not-ready"])
values = st.sampled_from(["", "1", "2"])
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
hosts = st.builds(
    Host,
    labels=st.dictionaries(keys, values),
    taints=st.lists(st.builds(Taint, key=keys, value=values, effect=effects), max_size=3).map(
        tuple
    ),
    cordoned=st.booleans(),
)
tolerations = st.builds(
    Toleration,
    key=keys,
    value=st.none() | values,
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
)
requirements = st.builds(
    Requirement,
    key=keys,
    operator=st.sampled_from(list(Operator)),
    values=st.lists(values, max_size=2).map(tuple),
)
terms = st.builds(Term, labels=st.lists(requirements, max_size=2).map(tuple))
demands_ = st.builds(
    Demands,
    tolerations=st.lists(tolerations, max_size=3).map(tuple),
    selector=st.lists(st.tuples(keys, values), max_size=1).map(tuple),
    affinity=st.none() | st.lists(terms, max_size=2).map(tuple),
)


@given(demands_, hosts, tolerations)
def test_one_more_toleration_never_bars_a_pod(
    demands: Demands, host: Host, more: Toleration
) -> None:
    wider = Demands(
        tolerations=(*demands.tolerations, more),
        selector=demands.selector,
        affinity=demands.affinity,
    )
    taints = {Reason.TAINT_NOT_TOLERATED, Reason.NODE_UNSCHEDULABLE}
    before, after = reason(demands, host), reason(wider, host)
    assert after is before or before in taints


@given(demands_, hosts)
def test_a_node_back_in_service_takes_every_pod_that_it_took_before(
    demands: Demands, host: Host
) -> None:
    assert not out_of_service(in_service(host))
    if refusal(demands, "n", host) is None:
        assert refusal(demands, "n", in_service(host)) is None


@given(demands_, st.dictionaries(st.sampled_from(["x", "y", "z"]), hosts))
def test_each_node_has_its_own_refusal(demands: Demands, several: dict[str, Host]) -> None:
    alone = {name: refusal(demands, name, host) for name, host in several.items()}
    expected = {name: each for name, each in alone.items() if each is not None}
    assert refusals(demands, several, several) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (OPEN, ()),
        (Host(taints=(Taint(key=f"{OWN_TAINTS}not-ready"),)), ("NotReady",)),
        (Host(taints=(Taint(key=f"{OWN_TAINTS}unreachable", effect="NoExecute"),)), ("NotReady",)),
        (Host(cordoned=True), ("cordoned",)),
        (Host(cordoned=True, taints=(Taint(key=UNSCHEDULABLE),)), ("cordoned",)),
        (Host(taints=(Taint(key="gpu"), Taint(key="gpu", effect="NoExecute"))), ("tainted gpu",)),
        (Host(taints=(Taint(key="soft", effect="PreferNoSchedule"),)), ()),
        (
            Host(cordoned=True, taints=(Taint(key="a"), Taint(key=f"{OWN_TAINTS}not-ready"))),
            ("NotReady", "cordoned", "tainted a"),
        ),
    ],
)
def test_the_states_that_bar_pods_from_a_node_are_told_in_words(
    host: Host, expected: tuple[str, ...]
) -> None:
    assert states(host) == expected
