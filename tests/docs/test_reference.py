"""The reference's YAML is what the code reads, and it names every key that a user may write."""

import pathlib
import re

import pytest
import yaml

from gpustack.model.request import Strategy, Topology
from gpustack.wire.keys import Keys
from gpustack.wire.kube.eligibility import parse_host
from gpustack.wire.pods import parse_request
from gpustack.wire.quota import CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE, decode_quota
from gpustack.wire.user_keys import core_limit

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text("utf-8")
KEYS = Keys()
OBJECTS = {
    each["kind"]: each
    for each in map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S))
}
USER_KEYS = (
    KEYS.gpu_topology,
    KEYS.gpu_model,
    KEYS.gpu_uuid,
    KEYS.gpu_placement,
    KEYS.core_limit,
)


@pytest.mark.parametrize("key", USER_KEYS)
def test_every_key_of_a_user_has_a_section_and_an_example(key: str) -> None:
    assert f"### `{key}`" in PAGE
    written = [
        yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / "examples").glob("*.yaml")
    ]
    assert any(key in (each["metadata"].get("annotations") or {}) for each in written)


@pytest.mark.parametrize("value", [each.value for each in (*Topology, *Strategy)])
def test_every_value_of_a_key_is_named(value: str) -> None:
    assert f"`{value}`" in PAGE


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda each: each.stem
)
def test_an_example_is_a_request_that_can_be_read(path: pathlib.Path) -> None:
    pod = yaml.safe_load(path.read_text("utf-8"))
    if pod["kind"] == "Pod":
        assert parse_request(KEYS, pod) is not None
        assert core_limit(KEYS, pod) == (80 if path.stem == "burst" else None)


def test_the_quota_is_one_and_stands_where_the_page_says() -> None:
    config_map = OBJECTS["ConfigMap"]
    metadata = config_map["metadata"]
    assert (metadata["namespace"], metadata["name"]) == (CONFIG_MAP_NAMESPACE, CONFIG_MAP_NAME)
    limits = decode_quota(config_map).namespaces["research"]
    assert (dict(limits.cards), limits.pools) == ({"A100": 400, "T4": 50}, ("shared",))


def test_the_taint_is_one_that_the_examples_tolerate() -> None:
    [taint] = parse_host(OBJECTS["Node"]).taints
    assert (taint.key, taint.effect) == ("nvidia.com/gpu", "NoSchedule")
