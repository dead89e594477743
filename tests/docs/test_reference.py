"""The reference agrees with the code: tables, names, examples."""

import functools
import pathlib
import re

import pytest
import yaml

from gpustack.agent.web.pages import pages
from gpustack.model.request import Strategy, Topology
from gpustack.model.topology.link_level import parse_link
from gpustack.wire import container_paths
from gpustack.wire.keys import Keys
from gpustack.wire.kube import mount_paths
from gpustack.wire.kube.eligibility import parse_host
from gpustack.wire.nodes import MODEL_LABEL, POOL_LABEL
from gpustack.wire.pods import parse_request
from gpustack.wire.quota import CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE, decode_quota
from gpustack.wire.user_keys import core_limit, names_of
from tests.docs import tables
from tests.monitoring.known import METRIC, known

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = Keys()


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")


PAGE = page("pods")
OBJECTS = {
    each["kind"]: each
    for each in map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S))
}


@pytest.mark.parametrize("key", names_of(KEYS))
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


@pytest.mark.parametrize("path", tables.PAGES, ids=lambda each: each.stem)
def test_the_tables_of_a_page_are_the_codes(path: pathlib.Path) -> None:
    text = path.read_text("utf-8")
    assert text == tables.render(text), "run `python -m tests.docs.tables`"


def test_every_table_stands_on_a_page() -> None:
    named = [found[2] for path in tables.PAGES for found in tables.BLOCK.finditer(path.read_text())]
    assert sorted(named) == sorted(tables.TABLES)


def test_every_page_of_the_reference_is_in_its_index() -> None:
    index = (ROOT / "docs" / "reference.md").read_text("utf-8")
    names = [path.stem for path in tables.PAGES if path.parent.name == "reference"]
    assert [name for name in names if f"](reference/{name}.md)" not in index] == []


@pytest.mark.parametrize(
    "name",
    [name for name, each in vars(Keys).items() if isinstance(each, functools.cached_property)],
)
def test_every_resource_and_annotation_is_named(name: str) -> None:
    text = "".join(path.read_text("utf-8") for path in tables.PAGES)
    assert f"`{getattr(KEYS, name)}" in text


def test_the_labels_of_a_node_are_named() -> None:
    text = page("nodes")
    assert f"`{MODEL_LABEL}`" in text
    assert f"`{POOL_LABEL}`" in text


@pytest.mark.parametrize("token", ["PIX", "PXB", "PHB", "NODE", "SYS"])
def test_the_cost_of_a_pair_is_the_models(token: str) -> None:
    assert re.search(rf"^\| `{token}` \|.*\| {parse_link(token).cost} \|$", page("nodes"), re.M)


def test_every_path_of_the_agent_is_named() -> None:
    served = pages(registry=None, display=None, unready=list, unwell=list)  # type: ignore[arg-type]
    [table, *_] = re.findall(r"^\| path \|.*?\n\n", page("agent"), re.M | re.S)
    assert set(re.findall(r"`(/[a-z]*)`", table)) == set(served)


def test_every_path_of_a_container_is_named() -> None:
    text = page("container")
    mounted = (
        container_paths.DRIVER_PATH,
        container_paths.PRELOAD_PATH,
        container_paths.HOOK_PATH,
        container_paths.LIMITS_PATH,
        container_paths.ACTIVITY_PATH,
        container_paths.LEDGER_PATH,
    )
    assert [path for path in mounted if f"| `{path}` |" not in text] == []
    named = (*mount_paths.PROTECTED_PATHS, *mount_paths.PROTECTED_FOLDERS)
    assert [path for path in named if f"`{path}`" not in text] == []


def test_the_names_of_other_exporters_stand_for_metrics_of_ours() -> None:
    table = page("agent").partition("| DCGM exporter | HAMi | here |")[2].partition("\n## ")[0]
    ours = [row.split("|")[3] for row in table.splitlines() if "DCGM_FI_" in row or "hami_" in row]
    assert len(ours) > 15
    named = [set(METRIC.findall(cell)) for cell in ours]
    assert all(named), "each says where its figure stands"
    assert set.union(*named) - known() == set()


def test_the_words_of_this_field_are_explained() -> None:
    index = (ROOT / "docs" / "reference.md").read_text("utf-8")
    words = ("core", "unit", "share", "whole card", "minor", "burst", "ledger", "the original")
    assert [word for word in words if f"| {word} |" not in index] == []
