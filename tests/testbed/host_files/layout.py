"""The files, links and folders that each kind of host gets before its first start."""

import collections.abc
import pathlib
import typing
import uuid

from tests.testbed import description, root
from tests.testbed.artifacts import images, kubernetes
from tests.testbed.host_files import cards, files, pki

SYSTEM_UNITS = "/etc/systemd/system"
TESTBED_FOLDER = "/etc/gpustack-testbed"
# where podman mounts folders of the cache, read-only
CURRENT_PROGRAMS = "/opt/kubernetes/bin"
POLICY_PROGRAMS = f"/opt/kubernetes/{kubernetes.POLICY.minor}"
IMAGES = "/opt/images"
SIMGPU_REPOSITORY = "/opt/simgpu-repository"
# halves what Ansible costs a host
COMPILED = pathlib.Path(__file__).parents[2] / "ansible/compiled/sitecustomize.py"
# any fixed value does: a host that is made again is the same machine to its users
NAMESPACE = uuid.UUID("6a1f3f5e-92f4-4d43-8a8e-1f1b8e2f7a55")


def common(testbed: description.Testbed, host: description.Host) -> list[files.Entry]:
    """Return every host's files: its identity, its neighbours' names, the way to their pods."""
    identity = uuid.uuid5(NAMESPACE, f"{testbed.name}/{host.name}").hex
    names = "\n".join(f"{other.address} {other.name}" for other in testbed.hosts)
    return [
        # Debian's own looks for a program that reports crashes
        files.File(
            f"/etc/python{root.SUITES[root.suite()]}/sitecustomize.py", COMPILED.read_bytes()
        ),
        files.File("/etc/machine-id", f"{identity}\n".encode(), mode=0o444),
        files.template("hosts", "/etc/hosts", lines=names),
        files.template("system.conf", "/etc/systemd/system.conf.d/testbed.conf"),
        files.File(f"{TESTBED_FOLDER}/routes.sh", routes(testbed, host).encode()),
        files.template("testbed-network.service", f"{SYSTEM_UNITS}/testbed-network.service"),
        files.enable("testbed-network.service"),
    ]


def routes(testbed: description.Testbed, host: description.Host) -> str:
    """Return the commands that lead to the pods of the other GPU hosts."""
    lines = ["sysctl --quiet --write net.ipv4.ip_forward=1"]
    lines += [
        f"ip route replace {other.pod_subnet} via {other.address}"
        for other in testbed.gpu_hosts
        if other != host
    ]
    return "\n".join(lines) + "\n"


def control_plane(
    testbed: description.Testbed, host: description.Host, keys: pki.ClusterPki
) -> list[files.Entry]:
    """Return a control plane: API server, controller manager, both schedulers; the first's etcd."""
    started = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    if host == testbed.control_plane:
        started.insert(0, "etcd")
    units = (*started, "kube-scheduler-1.22")
    return [
        *keys.control_plane_files(host),
        *(
            files.template(
                f"{unit}.service",
                f"{SYSTEM_UNITS}/{unit}.service",
                name=host.name,
                address=host.address,
                etcd=testbed.control_plane.address,
            )
            for unit in units
        ),
        *(files.enable(f"{unit}.service") for unit in started),
        files.template("scheduler-config.yaml", f"{pki.KUBERNETES}/scheduler-config.yaml"),
        *_programs("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
    ]


def gpu_node(host: description.Host, keys: pki.ClusterPki) -> list[files.Entry]:
    """Return a GPU host's files as a node: kubelet, containerd, the pods' network, images."""
    return [
        *keys.gpu_host_files(host),
        files.template(
            "kubelet.service",
            f"{SYSTEM_UNITS}/kubelet.service",
            name=host.name,
            address=host.address,
        ),
        files.template("kubelet-config.yaml", "/var/lib/kubelet/config.yaml"),
        files.template(
            "containerd.toml", "/etc/containerd/config.toml", pause_image=images.PAUSE
        ),
        files.template("cni.conflist", "/etc/cni/net.d/10-testbed.conflist",
                       pod_subnet=host.pod_subnet),
        files.template("testbed-images.service", f"{SYSTEM_UNITS}/testbed-images.service"),
        files.link(
            f"{SYSTEM_UNITS}/multi-user.target.wants/containerd.service",
            "/lib/systemd/system/containerd.service",
        ),
        files.enable("testbed-images.service"),
        files.enable("kubelet.service"),
        *_programs("kubelet", "kubectl"),
    ]  # fmt: skip


def gpu_host(described: collections.abc.Mapping[str, typing.Any]) -> list[files.Entry]:
    """Return a GPU host's own files: its cards, and room for the simulated driver's state.

    The folder has to be there before the first container starts, as each one mounts it.
    """
    return [cards.file(described), files.Folder("/var/lib/simgpu", mode=0o777)]


def _programs(*names: str) -> list[files.Entry]:
    return [files.link(f"/usr/local/bin/{name}", f"{CURRENT_PROGRAMS}/{name}") for name in names]
