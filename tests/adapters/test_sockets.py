"""The clients of the kubelet's and the runtime's sockets."""

import pathlib
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpustack.adapters.cri import CriClient, CriUnavailable, why_no_cdi
from gpustack.adapters.podresources import (
    PodResourcesClient,
    PodResourcesLimited,
    PodResourcesUnavailable,
    PodResourcesUnsupported,
)
from tests.fakes.cri import FakeCri
from tests.fakes.kubelet import FakeKubelet

POD = {
    "metadata": {"namespace": "default", "name": "p", "uid": "u"},
    "spec": {"containers": [{"name": "c"}]},
}


@pytest.fixture
def kubelet(tmp_path: pathlib.Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path) as kubelet:
        yield kubelet


@pytest.fixture
def resources(kubelet: FakeKubelet) -> Iterator[PodResourcesClient]:
    client = PodResourcesClient(kubelet.root / "pod-resources" / "kubelet.sock")
    yield client
    client.close()


def test_ids_that_are_listed_one_by_one_are_put_together(
    kubelet: FakeKubelet, resources: PodResourcesClient
) -> None:
    kubelet.give(POD, "c", "example.com/x", ["1", "2", "3"])
    expected = frozenset({"1", "2", "3"})
    assert resources.list()[0].ids("c", "example.com/x") == expected
    found = resources.get("default", "p")
    assert found is not None
    assert found.ids("c", "example.com/x") == expected
    assert found.ids("c", "example.com/y") == frozenset()


def test_a_full_nodes_ids_in_one_container_cost_no_second(
    kubelet: FakeKubelet, resources: PodResourcesClient
) -> None:
    ids = [str(number) for number in range(12288)]  # of 16 cards with 192 GiB
    kubelet.give(POD, "c", "example.com/x", ids)
    before = time.thread_time()
    (found,) = resources.list()
    assert time.thread_time() - before < 1.0  # the time of this thread: others' work is not in it
    assert found.ids("c", "example.com/x") == frozenset(ids)


def test_a_list_of_named_pods_has_no_others(
    kubelet: FakeKubelet, resources: PodResourcesClient
) -> None:
    kubelet.give(POD, "c", "example.com/x", ["1"])
    assert resources.list({("default", "q"), ("other", "p")}) == ()
    (found,) = resources.list({("default", "p")})
    assert found.ids("c", "example.com/x") == {"1"}


def test_a_pod_unknown_to_the_kubelet_has_no_resources(resources: PodResourcesClient) -> None:
    assert resources.get("default", "nobody") is None


def test_a_kubelet_without_get_says_so(kubelet: FakeKubelet, resources: PodResourcesClient) -> None:
    kubelet.has_get = False
    with pytest.raises(PodResourcesUnsupported, match="disabled"):
        resources.get("default", "p")


def test_a_limited_kubelet_is_asked_again(
    kubelet: FakeKubelet, resources: PodResourcesClient
) -> None:
    kubelet.limited = 3
    assert resources.list() == ()
    assert kubelet.limited == 0


def test_a_limited_kubelet_is_not_asked_again_after_the_deadline(
    kubelet: FakeKubelet, resources: PodResourcesClient
) -> None:
    kubelet.limited = 3
    for ask in (
        lambda: resources.list(deadline=time.monotonic()),
        lambda: resources.get("default", "p", deadline=time.monotonic()),
    ):
        with pytest.raises(PodResourcesLimited, match="100 a second"):
            ask()
    assert kubelet.calls == 2


def test_a_missing_kubelet_is_unavailable(tmp_path: pathlib.Path) -> None:
    client = PodResourcesClient(tmp_path / "nothing.sock")
    with pytest.raises(PodResourcesUnavailable):
        client.list()
    client.close()


def test_containers_carry_pod_name_and_state(tmp_path: pathlib.Path) -> None:
    with FakeCri(tmp_path) as runtime:
        first = runtime.run("u1", "a", annotations={"k": "v"})
        runtime.run("u2", "b")
        runtime.create_foreign()
        client = CriClient(runtime.endpoint)
        assert {(each.pod_uid, each.name) for each in client.containers()} == {
            ("u1", "a"),
            ("u2", "b"),
        }
        [one] = [each for each in client.containers() if each.pod_uid == "u1"]
        assert (one.id, one.running, dict(one.annotations)) == (first, True, {"k": "v"})
        runtime.exit(first)
        assert [each.running for each in client.containers()] == [False, True]
        client.close()


def test_a_missing_runtime_is_unavailable(tmp_path: pathlib.Path) -> None:
    client = CriClient(f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(CriUnavailable):
        client.containers()
    client.close()


_DIRS = ["/etc/cdi", "/var/run/cdi"]


@pytest.mark.parametrize(
    ("name", "version", "config"),
    [
        ("containerd", "v1.7.2", {"enableCDI": True, "cdiSpecDirs": _DIRS}),
        ("containerd", "1.7.24~ds1", {"enableCDI": True, "cdiSpecDirs": _DIRS}),
        ("containerd", "v2.4.0", {"cdiSpecDirs": _DIRS}),  # has no such key any more
        ("containerd", "v2.4.0", {"cdiSpecDirs": ["/run/cdi"]}),
        ("containerd", "of-a-vendor", {"enableCDI": True, "cdiSpecDirs": _DIRS}),
        ("cri-o", "1.29.1", {"sandboxImage": "registry.k8s.io/pause:3.9"}),
    ],
)
def test_a_runtime_with_cdi_is_known(
    tmp_path: pathlib.Path, name: str, version: str, config: dict[str, Any]
) -> None:
    assert _why_no_cdi(tmp_path, name, version, config) == ""


@pytest.mark.parametrize(
    ("name", "version", "config", "why"),
    [
        # as Debian 12's shows it
        ("containerd", "1.6.20~ds1", {"enableSelinux": False}, "1.6.20~ds1 takes no .* 1.7.2"),
        ("containerd", "v1.7.1", {"enableCDI": True, "cdiSpecDirs": _DIRS}, "takes no .* 1.7.2"),
        ("containerd", "v1.7.24", {"enableCDI": False, "cdiSpecDirs": _DIRS}, "enable_cdi = true"),
        ("containerd", "v1.7.24", {"enableCDI": "false", "cdiSpecDirs": _DIRS}, "has CDI off"),
        ("containerd", "of-a-vendor", {}, "has CDI off"),
        (
            "containerd",
            "v2.0.0",
            {"enableCDI": True, "cdiSpecDirs": ["/a"]},
            "cdi_spec_dirs.* '/a',",
        ),
        ("containerd", "v2.4.0", {"cdiSpecDirs": []}, "/var/run/cdi; add it.* none,"),
        # found by tests/fuzz
        ("containerd", "v2.0.0", {"cdiSpecDirs": ["/a\0b"]}, "cdi_spec_dirs"),
        ("containerd", "v2.0.0", {"cdiSpecDirs": ["/\ud800"]}, r"has '/.ud800', and"),
        ("containerd", f"v{'1' * 5000}.0.0", {"cdiSpecDirs": ["/a"]}, "cdi_spec_dirs"),
        ("cri-o", "1.27.4", {}, "takes no CDI devices from the kubelet; upgrade it to 1.28.0"),
        ("docker", "27.3.1", {}, "docker 27.3.1 isn't known to take CDI devices"),
    ],
)
def test_a_runtime_without_cdi_is_refused_with_what_to_do(
    tmp_path: pathlib.Path, name: str, version: str, config: dict[str, Any], why: str
) -> None:
    found = _why_no_cdi(tmp_path, name, version, config)
    assert re.search(why, found), found


def _why_no_cdi(folder: pathlib.Path, name: str, version: str, config: dict[str, Any]) -> str:
    with FakeCri(folder, name=name) as runtime:
        runtime.version, runtime.config = version, config
        client = CriClient(runtime.endpoint)
        found = why_no_cdi(client.version(), client.config(), pathlib.Path("/var/run/cdi"))
        client.close()
    return found
