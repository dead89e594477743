"""A node's annotation reads back; a value that describes no machine is refused by place."""

import json
from dataclasses import replace
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.node import Card, Node
from gpustack.model.topology import card_tree
from gpustack.wire import schemas
from gpustack.wire.annotations import BadAnnotation
from gpustack.wire.nodes import NodeLabels, decode_node, encode_devices
from tests.model.machines import card, grouped, nodes, partition
from tests.wire.api import KEYS

GIB = 1 << 30
PAIR = Node(
    name="n1",
    driver="535.261.03",
    cuda="12.2",
    cards=(card(0, numa=0, bus="0000:07:00.0", sms=108), card(1, healthy=False, reason="XID 79")),
    links=grouped(2, within="NV12"),
)


def api_node(value: object = None, **status: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) or value is None else json.dumps(value)
    annotations = {} if text is None else {KEYS.gpu_devices: text}
    return {"metadata": {"name": "n1", "annotations": annotations}, "status": status}


def body() -> Any:
    return json.loads(encode_devices(PAIR))


@given(nodes())
def test_a_node_reads_back_as_it_was_written(node: Node) -> None:
    published = api_node(encode_devices(node))
    published["metadata"]["name"] = node.name
    assert decode_node(KEYS, published) == node


def test_the_annotation_has_the_form_of_the_contract() -> None:
    assert body() == {
        "version": 1,
        "driver": "535.261.03",
        "cuda": "12.2",
        "devices": [
            {
                "minor": 0,
                "uuid": "GPU-0",
                "model": "Tesla P40",
                "memory": 16 * GIB,
                "sms": 108,
                "numa": 0,
                "bus": "0000:07:00.0",
                "healthy": True,
                "since": "",
                "reason": "",
            },
            {
                "minor": 1,
                "uuid": "GPU-1",
                "model": "Tesla P40",
                "memory": 16 * GIB,
                "sms": 0,
                "numa": None,
                "bus": "",
                "healthy": False,
                "since": "",
                "reason": "XID 79",
            },
        ],
        "links": [["X", "NV12"], ["NV12", "X"]],
    }


NVLINKED = replace(PAIR, paths=grouped(2, within="PXB"))


def test_the_paths_that_nvlink_hides_are_published_and_read_back() -> None:
    value = json.loads(encode_devices(NVLINKED))
    assert (value["links"][0][1], value["paths"]) == ("NV12", [["X", "PXB"], ["PXB", "X"]])
    assert schemas.problems(schemas.load("gpu-devices"), value) == []
    assert decode_node(KEYS, api_node(value)) == NVLINKED
    value["devices"].reverse()
    assert decode_node(KEYS, api_node(value)) == NVLINKED


def test_paths_are_published_only_where_they_add_to_the_links() -> None:
    plain = replace(PAIR, links=NVLINKED.paths, paths=NVLINKED.paths)
    assert "paths" not in json.loads(encode_devices(plain))
    assert decode_node(KEYS, api_node(encode_devices(plain))) == replace(plain, paths=())


def test_the_original_finds_its_groups_again_on_nvlinked_cards() -> None:
    """NVSwitch joins two pairs below switches; without paths they are one group."""
    cards = tuple(card(minor, numa=0) for minor in range(4))
    linked = Node(name="n1", cards=cards, links=grouped(4, within="NV12"))
    paths = grouped(2, 2, within="PXB", across="NODE")
    read = decode_node(KEYS, api_node(encode_devices(replace(linked, paths=paths))))
    assert partition(card_tree.of(read), card_tree.TreeLevel.MULTIPLE) == (
        (0, 1),
        (2, 3),
    )
    assert partition(card_tree.of(linked), card_tree.TreeLevel.MULTIPLE) == (
        (0,),
        (1,),
        (2,),
        (3,),
    )
    assert card_tree.of(read) == card_tree.of(replace(linked, links=paths))


def test_unknown_keys_are_ignored_and_devices_come_in_any_order() -> None:
    value = body()
    value["vendor"] = "x"
    value["devices"][0]["colour"] = "green"
    value["devices"].reverse()
    assert decode_node(KEYS, api_node(value)) == PAIR


def test_the_least_that_a_device_may_say_is_enough() -> None:
    least = {"minor": 0, "uuid": "GPU-0", "model": "", "memory": 0, "healthy": True}
    value = {"version": 1, "devices": [least], "links": []}
    assert decode_node(KEYS, api_node(value)).cards == (card(0, 0, model=""),)


def broken(*path: str | int, value: object = None) -> Any:
    """Return a good body with the value at `path` replaced, or removed when it is None."""
    whole = body()
    place = whole
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return whole


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{", "is not JSON"),
        ("[" * 10_000, "nested"),
        ([], "the document: .* is not of type object"),
        (broken("version", value=2), "version 2 is not known; this reader knows 1"),
        (broken("version", value="1"), "version '1' is not known"),
        (broken("version"), "the document: version is missing"),
        (broken("devices"), "devices is missing"),
        (broken("links"), "links is missing"),
        (broken("devices", 0, "minor", value=-1), r"devices\[0\]\.minor: -1 is less than 0"),
        (broken("devices", 1, "minor", value=0), r"devices\[1\]\.minor: 0 stands twice"),
        (broken("devices", 1, "uuid", value="GPU-0"), r"devices\[1\]\.uuid: 'GPU-0' stands twice"),
        (broken("devices", 0, "uuid", value="a,b"), "without commas"),
        (broken("devices", 0, "memory"), r"devices\[0\]: memory is missing"),
        (broken("devices", 0, "memory", value="16G"), "is not of type integer"),
        (broken("devices", 0, "healthy", value="yes"), "is not of type boolean"),
        (broken("devices", 0, "model", value="x" * 97), "is longer than 96 characters"),
        (broken("devices", 0, "numa", value=1024), "is more than 1023"),
        (broken("links", value=[["X"]]), "links has 1 rows for 2 cards"),
        (broken("links", 0, 1, value="PIX"), r"links\[1\]\[0\]"),
        (broken("links", 0, 1, value="SOC"), r"links\[0\]\[1\]: 'SOC' is not allowed"),
        (broken("paths", value=[["X"]]), "paths has 1 rows for 2 cards"),
        (broken("paths", value=[["X", "PIX"], ["PXB", "X"]]), r"paths\[1\]\[0\]: 'PXB', but paths"),
        (broken("paths", value=[["X", "NV4"], ["NV4", "X"]]), r"paths\[0\]\[1\]: 'NV4' is not"),
    ],
)
def test_a_value_that_describes_no_machine_is_refused_with_the_place(
    value: object, text: str
) -> None:
    with pytest.raises(BadAnnotation, match=text) as caught:
        decode_node(KEYS, api_node(value))
    assert caught.value.key == "tencent.com/gpu-devices"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_json_is_a_node_or_a_named_error(value: object) -> None:
    with pytest.raises(BadAnnotation, match=r"^annotation tencent\.com/gpu-devices: "):
        decode_node(KEYS, api_node(json.dumps(value)))


def equal_cards(core: object, memory: object) -> tuple[Card, ...]:
    amounts = {KEYS.vcuda_core: core, KEYS.vcuda_memory: memory}
    return decode_node(KEYS, api_node(allocatable=amounts)).cards


def test_a_node_of_the_original_counts_as_equal_cards() -> None:
    found = equal_cards("700", "668")
    assert [each.minor for each in found] == [0, 1, 2, 3, 4, 5, 6]
    assert {each.memory_units for each in found} == {95}
    assert {each.uuid for each in found} == {""}


@pytest.mark.parametrize("core", ["99", "0", "-100", "many"])
def test_fewer_than_100_cores_are_no_card(core: str) -> None:
    assert equal_cards(core, "668") == ()


def test_a_node_without_resources_has_an_empty_list_of_cards() -> None:
    assert decode_node(KEYS, {"metadata": {"name": "cpu"}}) == Node(name="cpu")


@pytest.mark.parametrize("core", ["9e18", str(9 * 10**18), 9 * 10**18, "25700"])
def test_a_node_that_offers_too_many_cards_is_refused(core: object) -> None:
    with pytest.raises(BadAnnotation, match=r"allocatable\[.*/vcuda-core\]: .* 256 at most"):
        equal_cards(core, "668")
    assert len(equal_cards("25600", "668")) == 256


def test_a_node_that_offers_too_much_memory_is_refused() -> None:
    with pytest.raises(BadAnnotation, match=r"allocatable\[.*/vcuda-memory\]: .* more than"):
        equal_cards("100", str(9 * 10**18))


@pytest.mark.parametrize("amount", ["1e30", "9" * 5000, 10**4000, float("inf"), {"a": 1}])
def test_an_impossible_amount_counts_as_nothing(amount: object) -> None:
    assert equal_cards(amount, "668") == ()


def test_a_long_reason_is_published_shortened() -> None:
    lengthy = replace(PAIR, cards=(replace(PAIR.cards[0], reason="x" * 300), PAIR.cards[1]))
    assert decode_node(KEYS, api_node(encode_devices(lengthy))).cards[0].reason == "x" * 256


def test_the_model_of_an_originals_node_comes_from_its_label() -> None:
    labelled = api_node(allocatable={KEYS.vcuda_core: "100", KEYS.vcuda_memory: "64"})
    labelled["metadata"]["labels"] = {"gaia.tencent.com/gpu-model": "P40"}
    assert [each.model for each in decode_node(KEYS, labelled).cards] == ["P40"]


def test_a_nodes_pool_and_an_unpublished_model_come_from_labels() -> None:
    labels = {"gaia.tencent.com/gpu-pool": "red", "gaia.tencent.com/gpu-model": "T4", "mine": "P4"}
    original = api_node(allocatable={KEYS.vcuda_core: "200", KEYS.vcuda_memory: "128"})
    original["metadata"]["labels"] = labels
    read = decode_node(KEYS, original)
    assert (read.pool, {each.model for each in read.cards}) == ("red", {"T4"})
    read = decode_node(KEYS, original, NodeLabels(model="mine", pool="none"))
    assert (read.pool, {each.model for each in read.cards}) == ("", {"P4"})
    published = api_node(body())
    published["metadata"]["labels"] = labels
    assert decode_node(KEYS, published) == replace(PAIR, pool="red")


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Yield every place in a document."""
    steps: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        steps = enumerate(value)
    found: list[tuple[str | int, ...]] = []
    for step, each in steps:
        found += [(*path, step), *places(each, (*path, step))]
    return found


PLACES = places(json.loads(encode_devices(NVLINKED)))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**54),
    st.floats(0, 2),
    st.sampled_from(["", "X", "NV0", "NV100", "PIX", "PIX\n", "GPU-1,GPU-2", "GPU-1\n"]),
    st.just([]),
    st.just({}),
)


@given(st.sampled_from(PLACES), VALUES)
def test_a_value_that_the_schema_forbids_is_refused(path: Any, value: object) -> None:
    whole = json.loads(encode_devices(NVLINKED))
    place = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    hypothesis.assume(schemas.problems(schemas.load("gpu-devices"), whole))
    with pytest.raises(BadAnnotation):
        decode_node(KEYS, api_node(json.dumps(whole)))


def test_links_of_more_cards_than_any_host_joins_are_not_read() -> None:
    for count, links in ((64, grouped(64, within="NV4")), (65, ())):
        cards = tuple(map(card, range(count)))
        many = Node(name="n1", cards=cards, links=grouped(count, within="NV4"))
        assert decode_node(KEYS, api_node(encode_devices(many))) == replace(many, links=links)
