"""Preflight reads the cluster's DeviceClasses, and refuses one that serves our resources."""

import pathlib
from typing import Any

import pytest

from tests.ansible import api_server, plugins
from tests.ansible.api_server import device_class, node
from tests.ansible.preflight.preflight_host import play

pytestmark = pytest.mark.long

lists = plugins.load("roles/cluster_objects/library/cluster_objects_list.py")


def preflight(
    folder: pathlib.Path, *classes: dict[str, Any] | str, **variables: Any
) -> tuple[int, str]:
    """Check a cluster of one GPU node and these classes; without any it knows no such kind."""
    objects: dict[str, Any] = {"nodes": [node("gpu1", {})]}
    if classes:
        objects["deviceclasses"] = list(classes)
    with api_server.serving(folder, objects) as kubeconfig:
        said = {"cluster_objects_kubeconfig": str(kubeconfig), "preflight_gpu_hosts": ["gpu1"]}
        return play(folder, "cluster", {**said, **variables})


def test_a_device_class_with_our_resource_is_refused_and_can_be_accepted(
    tmp_path: pathlib.Path,
) -> None:
    shares = device_class("shares", "tencent.com/vcuda-core")
    status, words = preflight(tmp_path, shares)
    assert status != 0
    assert "DeviceClass shares serves tencent.com/vcuda-core. For a node that offers none" in words
    accepted = ["dra-extended-resource"]
    status, words = preflight(tmp_path, shares, preflight_accepted_findings=accepted)
    assert status == 0, words


@pytest.mark.nightly
def test_the_configured_domain_says_which_resources_are_ours(tmp_path: pathlib.Path) -> None:
    classes = [device_class(domain, f"{domain}/vcuda-memory") for domain in ("x.test", "y.test")]
    status, words = preflight(tmp_path, *classes, cluster_objects_domain="x.test")
    assert status != 0
    assert "DeviceClass x.test serves x.test/vcuda-memory" in words
    assert "DeviceClass y.test" not in words


def test_a_cluster_without_device_classes_passes(tmp_path: pathlib.Path) -> None:
    status, words = preflight(tmp_path)
    assert status == 0, words


@pytest.mark.nightly
def test_endless_device_classes_are_not_read(tmp_path: pathlib.Path) -> None:
    long = device_class("long", None)
    long["spec"]["selectors"] = ["x" * (1 << 20)]
    status, words = preflight(tmp_path, *[long] * 17)
    assert status != 0
    assert "deviceclasses can't be listed: ValueError: more than 16777216 bytes; delete" in words


def test_a_list_of_the_limits_length_is_read(tmp_path: pathlib.Path) -> None:
    classes = [device_class("cards", "nvidia.com/gpu")]
    params = {
        "version": "resource.k8s.io/v1",
        "resource": "deviceclasses",
        "field_selector": "",
        "limit_bytes": None,
    }
    with api_server.serving(tmp_path, {"deviceclasses": classes}) as kubeconfig:
        params["kubeconfig"] = str(kubeconfig)
        whole = lists.read(params)
        assert lists.objects(whole) == classes
        assert lists.read({**params, "limit_bytes": len(whole)}) == whole
        with pytest.raises(ValueError, match=f"more than {len(whole) - 1} bytes"):
            lists.read({**params, "limit_bytes": len(whole) - 1})
