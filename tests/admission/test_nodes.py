"""A node cannot change its pool."""

import pytest

from tests.admission.site import POOL, Site, node, pool_label, refusal
from tests.control_plane.fleet import KEYS

pytestmark = pytest.mark.testbed


@pytest.mark.parametrize("pool", ["inference", "", None], ids=["other", "empty", "none"])
@pytest.mark.parametrize("part", ["", "/status"])
def test_a_node_changes_no_pool_of_its_own(site: Site, pool: str | None, part: str) -> None:
    said = site.patched(f"/api/v1/nodes/gpu1{part}", pool_label(pool), site.node)
    assert f"metadata.labels[{POOL}]: a node may not" in said
    assert site.admin.get("/api/v1/nodes/gpu1")["metadata"]["labels"][POOL] == "training"


def test_a_node_joins_without_a_pool_of_its_own(site: Site) -> None:
    nodes = "/api/v1/nodes?dryRun=All"
    assert f"labels[{POOL}]" in refusal(lambda: site.node.post(nodes, node("gpu3", "training")))
    assert refusal(lambda: site.node.post(nodes, node("gpu3"))) == ""


def test_a_node_describes_itself_and_administrators_name_its_pool(site: Site) -> None:
    path = "/api/v1/nodes/gpu2"
    labels = {"gaia.tencent.com/gpu-model": "T4", POOL: "training"}
    written = {"metadata": {"labels": labels, "annotations": {KEYS.gpu_devices: "{}"}}}
    assert site.patched(path, written, site.other) == ""
    assert site.patched(f"{path}/status", {"status": {"phase": "Running"}}, site.other) == ""
    for pool in ("inference", None, "training"):
        assert site.patched(path, pool_label(pool)) == ""
