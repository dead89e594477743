"""Bring a testbed up and take it down, step by step."""

import collections.abc
import pathlib
import typing

from tests.testbed import cluster, description, hosts, progress, root
from tests.testbed.artifacts import images, kubernetes, repository
from tests.testbed.host_files import cards, files, inventory, layout, pki


def build(*, kubernetes_too: bool = True, policy_scheduler: bool = False) -> None:
    """Make all parts that the cache keeps: root, driver package, Kubernetes, images.

    Args:
        kubernetes_too: Also the parts of a cluster.
        policy_scheduler: Also kube-scheduler 1.22.

    Raises:
        TestbedError: Something did not build.
    """
    root.build()
    repository.build()
    if kubernetes_too:
        kubernetes.build(kubernetes.CURRENT)
        images.build()
    if policy_scheduler:
        kubernetes.build(kubernetes.POLICY)


def up(
    name: str,
    *,
    gpu_hosts: int | None,
    with_cluster: bool,
    control_planes: int = 1,
    cards_file: pathlib.Path | None = None,
) -> description.Testbed:
    """Start a testbed anew and return it; the rest of one of that name is removed first.

    Args:
        name: Its name.
        gpu_hosts: How many GPU hosts; None for a single host that is the control plane, too.
        with_cluster: Whether Kubernetes runs on them.
        control_planes: How many control planes, unless a single host is both.
        cards_file: A description of their cards; without it two linked A100 each.

    Raises:
        TestbedError: A part did not start; the others are left for a look, and ``down`` removes
            them.
    """
    description.check_name(name)
    build(kubernetes_too=with_cluster)
    down(name)
    with progress.step(f"starting the hosts of {name}"):
        testbed = _plan(name, gpu_hosts, control_planes, with_cluster)
        _start(testbed, cards.describe(testbed, cards_file))
    if with_cluster:
        with progress.step(f"waiting for the cluster of {name}"):
            cluster.wait_ready(testbed)
    return testbed


def down(name: str) -> None:
    """Remove a testbed and every trace of it. It may be whole, broken, or not there at all."""
    hosts.remove(description.check_name(name))
    description.forget(name)


def _plan(
    name: str, gpu_hosts: int | None, control_planes: int, with_cluster: bool
) -> description.Testbed:
    subnet = hosts.create_network(name)
    testbed = description.plan(
        name, gpu_hosts, subnet, cluster=with_cluster, control_planes=control_planes
    )
    testbed.state.mkdir(parents=True)
    description.save(testbed)
    (testbed.state / "inventory.yml").write_text(inventory.text(testbed))
    return testbed


def _start(
    testbed: description.Testbed, described: collections.abc.Mapping[str, dict[str, typing.Any]]
) -> None:
    image = root.image()
    keys = pki.make(testbed) if testbed.cluster else None

    def start(host: description.Host) -> None:
        if host.role is description.Role.GPU:
            hosts.create_volume(testbed, host)
        entries = _entries(testbed, host, keys, described)
        hosts.create(testbed, host, image, entries, _mounts(testbed, host))
        hosts.wait_booted(testbed, host)

    hosts.each(testbed.hosts, start)


def _entries(
    testbed: description.Testbed,
    host: description.Host,
    keys: pki.ClusterPki | None,
    described: collections.abc.Mapping[str, dict[str, typing.Any]],
) -> list[files.Entry]:
    entries = layout.common(testbed, host)
    if host.role is description.Role.GPU:
        entries += layout.gpu_host(described[host.name])
    if keys is not None:
        if host.role is description.Role.GPU:
            entries += layout.gpu_node(host, keys)
        if host in testbed.control_planes:
            entries += layout.control_plane(testbed, host, keys)
    return entries


def _mounts(testbed: description.Testbed, host: description.Host) -> dict[str, pathlib.Path]:
    """Return the cache's folders that a host sees; a program built later is seen as well."""
    mounts = {}
    if testbed.cluster:
        mounts[layout.CURRENT_PROGRAMS] = kubernetes.CURRENT.bin
    if host.role is description.Role.GPU:
        mounts[layout.SIMGPU_REPOSITORY] = repository.folder()
        if testbed.cluster:
            mounts[layout.IMAGES] = images.folder()
    if testbed.cluster and host in testbed.control_planes:
        mounts[layout.POLICY_PROGRAMS] = kubernetes.POLICY.bin
    return mounts
