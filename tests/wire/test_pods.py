"""What a pod asks, and what it holds."""

from typing import Any

import pytest

from gpustack.model.request import BadRequest, ContainerKind, Selector, Strategy, Topology
from gpustack.wire.keys import Keys
from gpustack.wire.pods import (
    leaving,
    parse_held_limits,
    parse_request,
    stays_on_drain,
)
from tests.wire.api import KEYS, container, pod

CORE = "spec.containers[0].resources.limits[tencent.com/vcuda-core]"
MEMORY = "spec.containers[0].resources.limits[tencent.com/vcuda-memory]"
DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "exporter"}


def test_the_seeds_pod_asks_for_half_a_card() -> None:
    request = parse_request(KEYS, pod(container("50", "32")))
    assert request is not None
    [asked] = request.containers
    assert (asked.cores, asked.memory_units, asked.index) == (50, 32, 0)
    assert (request.topology, request.node_strategy) == (Topology.BEST_EFFORT, Strategy.BINPACK)


@pytest.mark.parametrize(
    "without",
    [
        pod(container()),
        pod(container(0, "0")),
        pod({"name": "c"}),
        pod({"name": "c", "resources": None}),
        pod(),
        {},
        {"spec": None, "metadata": None},
    ],
)
def test_only_a_pod_with_gpu_limits_is_a_gpu_pod(without: dict[str, Any]) -> None:
    assert parse_request(KEYS, without) is None


def test_a_pod_without_gpu_may_have_any_annotation() -> None:
    assert parse_request(KEYS, pod(container(), annotations={KEYS.gpu_topology: "odd"})) is None


@pytest.mark.parametrize(
    ("cores", "memory", "field"),
    [
        ("150", "10", CORE),
        ("50", None, CORE),
        (None, "10", MEMORY),
        ("abc", "10", CORE),
        ("50", "ten", MEMORY),
        ("-50", "10", CORE),
        ("50", "-10", MEMORY),
        ("99999999999999999999", "10", CORE),
        ("0.5", "10", CORE),
        ("50", "500m", MEMORY),
        ("50", "8Gi", MEMORY),
        ("100", "80Gi", MEMORY),
    ],
)
def test_a_bad_request_is_still_a_gpu_pod_and_names_its_field(
    cores: object, memory: object, field: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(KEYS, pod(container(cores, memory)))
    assert caught.value.field == field
    assert field in caught.value.message


def test_a_byte_quantity_is_refused_with_the_number_to_write() -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(KEYS, pod(container("50", "8Gi")))
    told = "asks 8589934592 units of 256 MiB (2 EiB); for 8 GiB write 32"
    assert caught.value.message == f"{MEMORY}: {told}"


def test_two_shares_without_memory_that_exceed_a_card_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"spec\.containers\[0\]"):
        parse_request(KEYS, pod(container("60"), container("60")))


@pytest.mark.parametrize("init", [0, 1])
def test_a_gpu_pod_has_at_most_64_containers(init: int) -> None:
    asks, plain = container("50", "32"), container()
    most = pod(asks, *[plain] * (63 - init), init=(plain,) * init)
    assert parse_request(KEYS, most) is not None
    more = pod(asks, *[plain] * (64 - init), init=(plain,) * init)
    with pytest.raises(
        BadRequest, match=r"spec\.containers: 65 containers .* may have 64"
    ) as caught:
        parse_request(KEYS, more)
    assert caught.value.field == "spec.containers"


def test_a_pod_asks_for_at_most_1024_cards_in_all() -> None:
    """Init containers count as well: a decision may name the cards of each."""
    assert parse_request(KEYS, pod(*[container("25600")] * 4)) is not None
    more = pod(container("25600"), init=(container("25600"),) * 4)
    with pytest.raises(BadRequest, match=r"ask for 1280 cards in all; a pod may ask for 1024"):
        parse_request(KEYS, more)
    assert parse_held_limits(KEYS, more) is None


def test_a_pod_without_gpu_may_have_many_containers() -> None:
    assert parse_request(KEYS, pod(*[container(), container("0", 0)] * 50)) is None


@pytest.mark.parametrize(
    "amount", ["x" * 100_000, "9" * 100_000, [1] * 100_000], ids=["text", "number", "list"]
)
def test_an_endless_amount_is_refused_in_few_words(amount: object) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(KEYS, pod(container("50", amount)))
    assert caught.value.field == MEMORY
    assert len(caught.value.message) < 400


def test_quantities_are_read_in_every_spelling_that_kubernetes_takes() -> None:
    request = parse_request(KEYS, pod(container("5e1", "1k")))
    assert request is not None
    assert [(each.cores, each.memory_units) for each in request.containers] == [(50, 1000)]


@pytest.mark.parametrize(
    ("owners", "annotations", "stays"),
    [
        ([DAEMON | {"controller": True}], {}, True),
        ([DAEMON], {}, False),
        ([DAEMON | {"controller": False}], None, False),
        ([DAEMON | {"controller": True, "apiVersion": "example.com/v1"}], None, False),
        ([{"kind": "Node", "name": "gpu1"}], {"kubernetes.io/config.mirror": "abc"}, True),
        ([{"kind": "ReplicaSet", "name": "web"}], {}, False),
        (None, None, False),
    ],
)
def test_a_drain_leaves_the_pods_that_kubectl_drain_leaves(
    owners: object, annotations: object, stays: bool
) -> None:
    item = {"metadata": {"name": "p", "ownerReferences": owners, "annotations": annotations}}
    assert stays_on_drain(item) == stays


def test_a_deleted_pod_is_leaving() -> None:
    assert leaving({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert not leaving({"metadata": {}})
    assert not leaving({})


def test_containers_keep_their_positions_and_kinds() -> None:
    request = parse_request(
        KEYS,
        pod(
            container(),
            container("100"),
            init=(container("50", "1"), container("20", "2", restartPolicy="Always")),
        ),
    )
    assert request is not None
    assert [(each.kind, each.index) for each in request.containers] == [
        (ContainerKind.APP, 1),
        (ContainerKind.INIT, 0),
        (ContainerKind.SIDECAR, 1),
    ]


def test_the_domain_changes_every_name() -> None:
    other = Keys("example.org")
    assert parse_request(other, pod(container("150"))) is None
    assert other.idx(ContainerKind.APP, 0) == "example.org/predicate-gpu-idx-0"


def conditions(**annotations: str) -> Any:
    keys = {f"{KEYS.domain}/gpu-{name}": value for name, value in annotations.items()}
    return parse_request(KEYS, pod(container("50", "8"), annotations=keys))


def test_models_and_uuids_are_lists_in_which_an_exclamation_mark_excludes() -> None:
    request = conditions(model="A100, !P40", uuid="!GPU-1")
    assert request.models == Selector(include=("A100",), exclude=("P40",))
    assert request.uuids == Selector(exclude=("GPU-1",))


def test_a_model_may_be_named_with_the_drivers_spaces() -> None:
    request = conditions(model="NVIDIA A100-SXM4-80GB, ! NVIDIA T4")
    assert request.models == Selector(include=("NVIDIA-A100-SXM4-80GB",), exclude=("NVIDIA-T4",))


@pytest.mark.parametrize(
    ("text", "node", "card_"),
    [
        ("spread", Strategy.SPREAD, Strategy.SPREAD),
        ("binpack", Strategy.BINPACK, Strategy.BINPACK),
        ("node=spread,card=binpack", Strategy.SPREAD, Strategy.BINPACK),
        ("card=spread", Strategy.BINPACK, Strategy.SPREAD),
    ],
)
def test_placement_is_given_for_both_or_for_each(
    text: str, node: Strategy, card_: Strategy
) -> None:
    request = conditions(placement=text)
    assert (request.node_strategy, request.card_strategy) == (node, card_)


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("topology", "nv-link", "best-effort, single-switch, single-numa, nvlink"),
        ("placement", "tight", "binpack, spread, or node=spread,card=binpack"),
        ("placement", "node=spread,node=spread", "binpack, spread, or"),
        ("placement", "disk=spread", "binpack, spread, or"),
        ("placement", "node=", "binpack, spread, or"),
        ("model", "A100,,P40", "write A100,!P40"),
        ("model", "", "write A100,!P40"),
        ("model", "*", "write A100,!P40"),
        ("uuid", "!", "write A100,!P40"),
    ],
)
def test_an_unknown_condition_is_refused_with_the_allowed_ones(
    name: str, text: str, allowed: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        conditions(**{name: text})
    assert caught.value.field == f"metadata.annotations[tencent.com/gpu-{name}]"
    assert allowed in caught.value.message
