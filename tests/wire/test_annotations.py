"""Decisions as annotations: they read back, and other annotations give no decision."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.request import ContainerKind, PodRequest
from gpustack.wire.annotations import (
    BadAnnotation,
    decode_decision,
    encode_decision,
    has_decision,
)
from gpustack.wire.pods import parse_request
from tests.model.machines import card, nodes, pods
from tests.wire.api import KEYS, container, pod

NOW = 1_700_000_000_123_456_789
TIME = KEYS.predicate_time
NODE = KEYS.predicate_node
ASSIGNED = KEYS.gpu_assigned
IDX = KEYS.idx(ContainerKind.APP, 0)
UUID = KEYS.uuid(ContainerKind.APP, 0)
PAIR = pod(container("200"))
HERE = Node(name="n1", cards=(card(0), card(1), card(2)))


def request_of(body: dict[str, Any]) -> PodRequest:
    request = parse_request(KEYS, body)
    assert request is not None
    return request


def annotated(body: dict[str, Any], annotations: dict[str, str], node: str = "") -> dict[str, Any]:
    spec = {**body["spec"], "nodeName": node} if node else body["spec"]
    return {**body, "spec": spec, "metadata": {**body["metadata"], "annotations": annotations}}


@given(nodes(used=False), pods(), st.integers(1, 2**62), st.booleans())
def test_a_decision_reads_back_as_it_was_written(
    node: Node, request: PodRequest, now_ns: int, assigned: bool
) -> None:
    placement = place(node, request)
    assume(isinstance(placement, Placement))
    assert isinstance(placement, Placement)
    written = encode_decision(KEYS, placement, now_ns, assigned=assigned)
    decision = decode_decision(KEYS, annotated(pod(), written), request, node)
    assert decision is not None
    assert decision.placement == placement
    assert (decision.node, decision.time_ns, decision.assigned) == (node.name, now_ns, assigned)


def test_a_decision_is_written_under_the_names_of_the_contract() -> None:
    request = request_of(
        pod(container(), container("200"), init=(container("10", "1", restartPolicy="Always"),))
    )
    placement = place(HERE, request)
    assert isinstance(placement, Placement)
    assert encode_decision(KEYS, placement, NOW) == {
        "tencent.com/predicate-time": str(NOW),
        "tencent.com/predicate-node": "n1",
        "tencent.com/gpu-assigned": "false",
        "tencent.com/predicate-gpu-idx-1": "0,1",
        "tencent.com/predicate-gpu-uuid-1": "GPU-0,GPU-1",
        "tencent.com/predicate-gpu-idx-init-0": "2",
        "tencent.com/predicate-gpu-uuid-init-0": "GPU-2",
    }


def test_an_init_container_on_its_pods_cards_needs_no_annotation() -> None:
    request = request_of(pod(container("50", "8"), init=(container("30", "8"),)))
    placement = place(HERE, request)
    assert isinstance(placement, Placement)
    written = encode_decision(KEYS, placement, NOW)
    assert not [key for key in written if "init" in key]
    decision = decode_decision(KEYS, annotated(pod(), written), request)
    assert decision is not None
    assert decision.placement == placement


def test_an_init_container_that_needs_more_than_its_pod_is_annotated() -> None:
    request = request_of(pod(container("50", "8"), init=(container("80", "8"),)))
    placement = place(HERE, request)
    assert isinstance(placement, Placement)
    assert KEYS.idx(ContainerKind.INIT, 0) in encode_decision(KEYS, placement, NOW)


def test_only_published_uuids_are_written() -> None:
    bare = Node(name="n1", cards=(card(0, uuid=""),))
    placement = place(bare, request_of(pod(container("50", "8"))))
    assert isinstance(placement, Placement)
    assert not [key for key in encode_decision(KEYS, placement, NOW) if "uuid" in key]


GOOD = {TIME: str(NOW), NODE: "n1", IDX: "0,1", UUID: "GPU-0,GPU-1", ASSIGNED: "false"}


def changed(**changes: str | None) -> dict[str, str]:
    """Return a good decision with some annotations replaced, or dropped by None."""
    names = {"time": TIME, "node": NODE, "idx": IDX, "uuid": UUID, "assigned": ASSIGNED}
    new = {names[name]: value for name, value in changes.items()}
    return {key: value for key, value in {**GOOD, **new}.items() if value is not None}


def decode(annotations: dict[str, str], bound: str = "") -> Any:
    body = annotated(PAIR, annotations, bound)
    return decode_decision(KEYS, body, request_of(body), HERE)


@pytest.mark.parametrize(
    "annotations",
    [GOOD, changed(uuid=None), changed(assigned=None), changed(assigned="true")],
)
def test_decisions_of_ours_and_of_the_original_are_read(annotations: dict[str, str]) -> None:
    decision = decode(annotations)
    assert decision.placement.containers[0].minors == (0, 1)
    assert decision.time_ns == NOW


def test_cards_in_the_originals_pick_order_keep_their_uuids() -> None:
    [found] = decode(changed(idx="2,0", uuid="GPU-2,GPU-0")).placement.containers
    assert (found.minors, found.uuids) == ((0, 2), ("GPU-0", "GPU-2"))


def test_a_bound_pods_node_need_not_be_named() -> None:
    assert decode(changed(node=None), bound="n1").node == "n1"


@pytest.mark.parametrize("assigned", ["false", "true"])
def test_a_choice_of_the_originals_manager_for_a_bound_pod_is_a_decision(assigned: str) -> None:
    written = changed(time=None, node=None, uuid=None, assigned=assigned)
    decision = decode(written, bound="n1")
    assert (decision.node, decision.time_ns) == ("n1", 0)
    assert decision.placement.containers[0].minors == (0, 1)
    with pytest.raises(BadAnnotation, match="names no node"):
        decode(written)
    with pytest.raises(BadAnnotation, match=f"{TIME}: is missing"):
        decode(changed(time=None, assigned=None), bound="n1")


@pytest.mark.parametrize(
    "annotations", [{}, {ASSIGNED: "false"}, {KEYS.gpu_retry: "1"}, {KEYS.gpu_model: "A100"}]
)
def test_a_decision_needs_one_of_its_own_annotations(annotations: dict[str, str]) -> None:
    assert decode(annotations) is None
    assert not has_decision(KEYS, annotated(PAIR, annotations))


@pytest.mark.parametrize(
    ("annotations", "key", "text"),
    [
        (changed(time=None), TIME, "is missing"),
        (changed(time="soon"), TIME, "nanoseconds"),
        (changed(time="-1"), TIME, "nanoseconds"),
        (changed(time=" 1"), TIME, "nanoseconds"),
        (changed(time="1e9"), TIME, "nanoseconds"),
        (changed(node=None), NODE, "names no node"),
        (changed(node="x" * 254), NODE, "is no node's name"),
        (changed(assigned="yes"), ASSIGNED, "neither"),
        (changed(idx=None, uuid=None), IDX, "is missing"),
        (changed(idx=None), IDX, "is missing"),
        (changed(idx=""), IDX, "not a comma-separated list"),
        (changed(idx="0, 1"), IDX, "not a comma-separated list"),
        (changed(idx="0,-1"), IDX, "not a comma-separated list"),
        (changed(idx="00,1"), IDX, "not a comma-separated list"),
        (changed(idx="0,1,"), IDX, "not a comma-separated list"),
        (changed(idx="\u0660,1"), IDX, "not a comma-separated list"),
        (changed(idx="0,0"), IDX, "twice"),
        (changed(idx="0"), IDX, "asks for 200 cores: 2 card"),
        (changed(idx="0,1,2"), IDX, "asks for 200 cores: 2 card"),
        (changed(idx="0,9"), IDX, "has no card 9"),
        (changed(uuid="GPU-0"), UUID, "1 UUIDs for 2 card"),
        (changed(uuid="GPU-0,GPU-0"), UUID, "different card UUIDs"),
        (changed(uuid="GPU-0,"), UUID, "different card UUIDs"),
        (changed(uuid=f"GPU-0,{'x' * 97}"), UUID, "different card UUIDs"),
        (changed(uuid="GPU-1,GPU-0"), UUID, "card 0 is GPU-0 now, not GPU-1"),
        ({**GOOD, KEYS.idx(ContainerKind.APP, 1): "2"}, KEYS.idx(ContainerKind.APP, 1), "asks"),
        ({**GOOD, KEYS.idx_prefix + "x": "2"}, KEYS.idx_prefix + "x", "no container"),
        ({**GOOD, KEYS.uuid_prefix + "1": "U"}, KEYS.uuid_prefix + "1", "no container"),
    ],
)
def test_an_unreadable_or_unjustified_decision_names_the_annotation(
    annotations: dict[str, str], key: str, text: str
) -> None:
    with pytest.raises(BadAnnotation) as caught:
        decode(annotations)
    assert caught.value.key == key
    assert key in caught.value.message
    assert text in caught.value.message


def test_a_decision_for_another_node_than_the_pods_own_is_refused() -> None:
    with pytest.raises(BadAnnotation, match="says 'n1', but the pod runs on 'n2'"):
        decode(GOOD, bound="n2")


@given(st.dictionaries(st.sampled_from([TIME, NODE, IDX, UUID, ASSIGNED]), st.text(max_size=20)))
def test_any_text_is_a_decision_none_or_a_named_error(annotations: dict[str, str]) -> None:
    key = "none"
    try:
        decision = decode(annotations)
    except BadAnnotation as error:
        decision, key = None, error.key
    assert decision is None or len(decision.placement.containers) == 1
    assert key == "none" or key.startswith("tencent.com/")
