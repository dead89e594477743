"""A pod or node decoded by the fields that we read says the same as the whole object."""

import json
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.request import BadRequest, PodRequest
from gpustack.wire.annotations import decode_decision, encode_decision
from gpustack.wire.kube import api_objects
from gpustack.wire.nodes import decode_node, encode_devices
from gpustack.wire.pods import asking, finished, leaving, parse_request
from tests.model.clusters import small_pod
from tests.model.machines import card, dice, grouped
from tests.wire.api import KEYS, container, pod

NODE = Node(name="n1", cards=tuple(card(minor) for minor in range(4)), links=grouped(2, 2))
JUNK: list[Any] = [None, 7, "x", [1, {"a": None}], {"metadata": {"name": 7}}, {"limits": []}]


def noisy(rolled: random.Random, value: Any) -> Any:
    """Return the object with fields that no program of ours reads, in another order."""
    if isinstance(value, list):
        return [noisy(rolled, each) for each in value]
    if not isinstance(value, dict):
        return value
    items = [
        (key, each if key in {"annotations", "limits"} else noisy(rolled, each))
        for key, each in value.items()
    ]
    items += [(f"other{number}", rolled.choice(JUNK)) for number in range(rolled.randint(0, 2))]
    rolled.shuffle(items)
    return dict(items)


def written(rolled: random.Random) -> dict[str, Any]:
    asked = small_pod(rolled, NODE)
    found = place(NODE, asked)
    notes = encode_decision(KEYS, found, 5) if isinstance(found, Placement) else {}
    made = pod(
        *(
            container(str(each.cores), str(each.memory_units), name=each.name)
            for each in asked.containers
        ),
        init=(container(name="setup"), container("100", restartPolicy="Always", name="side")),
        annotations=notes,
        node=rolled.choice(["", "node"]),
        phase=rolled.choice(["Pending", "Running", "Failed"]),
    )
    if rolled.random() < 0.3:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def said(value: Any) -> object:
    request = parse_request(KEYS, value)
    assert request is not None
    try:
        decision: object = decode_decision(KEYS, value, request)
    except ValueError as error:
        decision = str(error)
    return request, decision, finished(value), leaving(value)


@given(dice)
def test_a_pod_says_the_same(rolled: random.Random) -> None:
    whole = written(rolled)
    raw = json.dumps(noisy(rolled, whole)).encode()
    assert said(api_objects.decode_pod(raw)) == said(whole)


def host_pod(raw: bytes) -> Any:
    hiding = {"/etc/vcuda": "below", "/etc": "above"}
    return api_objects.decode_host_pod(KEYS, hiding.get, raw)


def asked(value: Any) -> PodRequest | str | None:
    try:
        return parse_request(KEYS, value)
    except BadRequest as problem:
        return str(problem)


CONDITIONS = {
    KEYS.gpu_model: ["A100", "!P40", ","],
    KEYS.gpu_uuid: ["GPU-1", ""],
    KEYS.gpu_topology: ["nvlink", "odd"],
    KEYS.gpu_placement: ["spread", "node=spread", "card=odd"],
}


@given(dice)
def test_a_part_of_a_pod_says_what_it_asks_for(rolled: random.Random) -> None:
    """Pods that agree in that part are read once."""
    whole = written(rolled)
    for key, values in CONDITIONS.items():
        if rolled.random() < 0.3:
            whole["metadata"]["annotations"][key] = rolled.choice(values)
    if rolled.random() < 0.2:
        whole["spec"]["containers"].append(container("ten", 5, name="odd"))
    part = json.loads(json.dumps(asking(KEYS, noisy(rolled, whole))))
    assert asked(part) == asked(whole)
    assert part.keys() == {"metadata", "spec"}
    assert not part["metadata"]["annotations"].keys() - CONDITIONS.keys()


@given(dice)
def test_a_node_says_the_same(rolled: random.Random) -> None:
    whole = {
        "metadata": {"name": "n1", "annotations": {KEYS.gpu_devices: encode_devices(NODE)}},
        "status": {"allocatable": {KEYS.vcuda_core: "400"}, "images": [{"names": ["x"]}]},
    }
    raw = json.dumps(noisy(rolled, whole)).encode()
    assert decode_node(KEYS, api_objects.decode_node(raw)) == NODE


def test_only_fields_that_are_read_are_decoded() -> None:
    value = {"metadata": {"name": "n1", "managedFields": [1]}, "status": {"images": [1]}}
    assert api_objects.decode_node(json.dumps(value).encode()) == {
        "metadata": {"name": "n1"},
        "status": {},
    }


@given(dice)
def test_a_pod_of_a_host_says_the_same(rolled: random.Random) -> None:
    whole = written(rolled)
    raw = json.dumps(noisy(rolled, whole)).encode()
    assert asked(host_pod(raw)) == (None if finished(whole) else asked(whole))
    assert finished(host_pod(raw)) == finished(whole)


def test_a_pod_of_a_host_keeps_the_mounts_of_gpu_containers_alone() -> None:
    paths = ("/data", "/etc", "/etc/vcuda", "/etc/vcuda", "/etc")
    mounts = [{"mountPath": path, "name": "data"} for path in paths]
    devices = [{"devicePath": "/etc/vcuda", "name": "disk"}]
    share = {**container("50", "32"), "volumeMounts": mounts, "volumeDevices": devices}
    plain = {"name": "plain", "volumeMounts": mounts, "resources": {"limits": {"cpu": "1"}}}
    raw = json.dumps({"metadata": {}, "spec": {"containers": [share, plain]}}).encode()
    first, second = host_pod(raw)["spec"]["containers"]
    assert first["volumeMounts"] == [{"mountPath": "/etc"}, {"mountPath": "/etc/vcuda"}]
    assert first["volumeDevices"] == [{"devicePath": "/etc/vcuda"}]
    assert second == {"name": "plain", "resources": {}}


@pytest.mark.parametrize(
    "value",
    [
        {"metadata": {"labels": {f"l{at}": "" for at in range(50_000)}}},
        {"metadata": {"annotations": {f"a{at}": "" for at in range(40_000)}}},
        {"spec": {"containers": [{"env": [{"name": f"E{at}"} for at in range(30_000)]}]}},
        {"spec": {"tolerations": [{"key": f"t{at}"} for at in range(30_000)]}},
        {
            "spec": {
                "containers": [{"volumeMounts": [{"mountPath": f"/{at}"} for at in range(30_000)]}]
            }
        },
        {
            "spec": {
                "containers": [
                    {
                        "resources": {"limits": {KEYS.vcuda_core: cores}},
                        "volumeMounts": [{"mountPath": f"/{at}"} for at in range(30_000)],
                        "volumeDevices": [{"devicePath": f"/{at}"} for at in range(30_000)],
                    }
                    for cores in ("0", "100")
                ]
            }
        },
        {
            "spec": {"containers": [container("50", "32", name=f"c{at}") for at in range(5_000)]},
            "status": {"phase": "Failed"},
        },
        {"metadata": {"annotations": {f"{KEYS.idx_prefix}{at}": "" for at in range(6_000)}}},
        {"spec": {"containers": [{"name": f"c{at}"} for at in range(9_000)]}},
        {"status": {"containerStatuses": [{"name": f"c{at}", "state": {}} for at in range(9_000)]}},
    ],
    ids=[
        "labels",
        "annotations",
        "environment",
        "tolerations",
        "mounts",
        "mounts of cards",
        "ended",
        "decisions",
        "containers",
        "statuses",
    ],
)
def test_a_large_pod_costs_a_host_little(value: dict[str, Any]) -> None:
    raw = json.dumps({"metadata": {"name": "p"}, **value}).encode()
    host_pod(b'{"metadata": {}}')
    tracemalloc.start()
    try:
        pod = host_pod(raw)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pod
    assert kept < 100_000  # decoded as a whole it takes some megabytes


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{", b"\xff", b'{"metadata": {"name": 7}}', b'{"spec": []}', b"[" * 99_999]
)
def test_a_body_that_is_no_object_of_the_api_is_refused(raw: bytes) -> None:
    with pytest.raises(api_objects.BadObject):
        api_objects.decode_pod(raw)
