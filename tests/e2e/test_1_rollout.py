"""What site.yml leaves on hosts that never saw the product."""

import pathlib
import re

import pytest

from tests.cluster.site import Site

pytestmark = pytest.mark.testbed

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.nightly  # molecule's idempotence, on hosts that tenants used
def test_a_run_after_the_first_changes_nothing(site: Site) -> None:
    again = site.playbook("site")
    changes = {host: recap.changes for host, recap in again.items() if recap.changed}
    assert changes == {}, "the run changed hosts"


def test_nodes_offer_a_hundred_cores_and_320_memory_units_a_card(site: Site) -> None:
    for node in site.kubectl.items("nodes"):
        allocatable = node["status"]["allocatable"]
        # two 80 GiB cards: 2 x 100 cores, 2 x 85899345920 / 268435456 units
        assert allocatable["tencent.com/vcuda-core"] == "200"
        assert allocatable["tencent.com/vcuda-memory"] == "640"


def test_verify_passes(site: Site) -> None:
    recap = site.playbook("verify")
    assert all(line.failed == 0 and line.changed == 0 for line in recap.values())


def test_hosts_have_the_versions_that_the_reference_names(site: Site) -> None:
    page = (ROOT / "docs/reference/kubernetes.md").read_text("utf-8")
    for name, host, package in (
        ("etcd", "cp1", "etcd-server"),
        ("containerd", "gpu1", "containerd"),
    ):
        shown = site.on(host, "dpkg-query", "--show", "--showformat=${Version}", package)
        [version] = re.findall(r"^\d+\.\d+\.\d+", shown)
        assert f"| {name} of Debian 12 | {version} |" in page
