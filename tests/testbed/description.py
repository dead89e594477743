"""The parts of a testbed: plain values, kept in its state folder as ``hosts.json``."""

import dataclasses
import enum
import ipaddress
import json
import pathlib
import re
import shutil
import typing

from tests.testbed import paths, progress

DEFAULT_NAME = "testbed"
# podman label of everything that belongs to a testbed; its value is the testbed's name
LABEL = "gpustack.testbed"
# Debian's containers and the hosts' network devices allow no other characters
NAME_PATTERN = re.compile(r"[a-z][a-z0-9]{0,9}")
# fourth byte of cp1's address; GPU hosts follow it, other control planes count down from it, and
# podman's gateway has 1
FIRST_ADDRESS = 10
MOST_CONTROL_PLANES = FIRST_ADDRESS - 1


class Role(enum.StrEnum):
    """The role of a host; the values are the inventory's groups."""

    CONTROL_PLANE = "kube_control_plane"
    GPU = "gpu_nodes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One systemd host. ``number`` is 0 for a control plane, and 1, 2, … for GPU hosts."""

    name: str
    role: Role
    number: int
    address: str

    @property
    def pod_subnet(self) -> str:
        """Return the addresses of the pods that run here (control planes run none)."""
        return f"10.244.{self.number}.0/24"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """A set of hosts on a network of their own, with or without a cluster on them."""

    name: str
    cluster: bool
    hosts: tuple[Host, ...]

    @property
    def state(self) -> pathlib.Path:
        """Return the folder of this testbed's files."""
        return state(self.name)

    @property
    def control_plane(self) -> Host:
        """Return the host that carries etcd: the only one, where one is all."""
        return self.hosts[0]

    @property
    def control_planes(self) -> tuple[Host, ...]:
        """Return the hosts that carry an API server each, and what else kubeadm makes of one."""
        return tuple(
            host
            for host in self.hosts
            if host == self.control_plane or host.role is Role.CONTROL_PLANE
        )

    @property
    def gpu_hosts(self) -> tuple[Host, ...]:
        """Return the hosts that have cards, in the order of their numbers."""
        return tuple(host for host in self.hosts if host.role is Role.GPU)

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Return the administrator's kubeconfig, usable from this machine."""
        return self.state / "admin.kubeconfig"

    def container(self, host: Host) -> str:
        """Return the name of a host's podman container."""
        return f"{self.name}-{host.name}"

    def volume(self, host: Host) -> str:
        """Return the name of the podman volume that holds a GPU host's images and containers."""
        return f"{self.name}-{host.name}-containerd"

    def pid_file(self, host: Host) -> pathlib.Path:
        """Return the file with the PID of a host's init; podman writes it at every start."""
        return self.state / f"{host.name}.pid"

    def host(self, name: str) -> Host:
        """Return a host by its name.

        Raises:
            TestbedError: This testbed has no such host.
        """
        for host in self.hosts:
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.hosts)
        raise progress.TestbedError(f"testbed {self.name} has no host {name}; it has {known}")


def state(name: str) -> pathlib.Path:
    """Return the state folder of the testbed of this name."""
    return paths.state_root() / name


def network(name: str) -> str:
    """Return the name of a testbed's podman network."""
    return f"gpustack-{name}"


def check_name(name: str) -> str:
    """Return the name when it may name a testbed.

    Raises:
        TestbedError: It may not.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise progress.TestbedError(
            f"a testbed's name is a letter and up to nine letters or digits, not {name!r}"
        )
    return name


def plan(
    name: str, gpu_hosts: int | None, subnet: str, *, cluster: bool, control_planes: int = 1
) -> Testbed:
    """Lay out a testbed of control planes and some GPU hosts in a network.

    Args:
        name: The testbed's name.
        gpu_hosts: How many GPU hosts, at least 0; None for a single host that is both.
        subnet: The podman network's addresses, as ``10.89.3.0/24``.
        cluster: Whether Kubernetes is to run on the hosts.
        control_planes: How many control planes, unless a single host is both.

    Raises:
        TestbedError: The network has too few addresses.
    """
    if not 1 <= control_planes <= MOST_CONTROL_PLANES:
        raise progress.TestbedError(
            f"a testbed has 1 to {MOST_CONTROL_PLANES} control planes, not {control_planes}"
        )
    addresses = ipaddress.IPv4Network(subnet)
    last = 1 if gpu_hosts is None else gpu_hosts
    if FIRST_ADDRESS + last >= addresses.num_addresses - 1:
        raise progress.TestbedError(f"{subnet} has no room for {gpu_hosts} GPU hosts")
    base = addresses.network_address + FIRST_ADDRESS
    hosts = []
    if gpu_hosts is not None:
        hosts += [
            Host(
                name=f"cp{number + 1}",
                role=Role.CONTROL_PLANE,
                number=0,
                address=str(base - number),
            )
            for number in range(control_planes)
        ]
    for number in range(1, last + 1):
        address = str(base + number)
        hosts.append(Host(name=f"gpu{number}", role=Role.GPU, number=number, address=address))
    return Testbed(name=check_name(name), cluster=cluster, hosts=tuple(hosts))


def save(testbed: Testbed) -> None:
    """Write ``hosts.json`` and, for each host, a file that holds its address."""
    for host in testbed.hosts:
        (testbed.state / f"{host.name}.address").write_text(host.address + "\n")
    text = json.dumps(dataclasses.asdict(testbed), indent=2)
    (testbed.state / "hosts.json").write_text(text + "\n")


def load(name: str) -> Testbed:
    """Read the testbed of this name.

    Raises:
        TestbedError: There is none.
    """
    file = state(check_name(name)) / "hosts.json"
    try:
        fields = json.loads(file.read_text())
    except FileNotFoundError:
        raise progress.TestbedError(
            f"no testbed is called {name}: start one with python -m tests.testbed up --name {name}"
        ) from None
    return _parse(fields)


def _parse(fields: dict[str, typing.Any]) -> Testbed:
    hosts = tuple(Host(**{**host, "role": Role(host["role"])}) for host in fields["hosts"])
    return Testbed(name=fields["name"], cluster=fields["cluster"], hosts=hosts)


def forget(name: str) -> None:
    """Remove the state folder of a testbed, and the folder of all testbeds when it was the last."""
    folder = state(check_name(name))
    if folder.exists():
        shutil.rmtree(folder)
    root = paths.state_root()
    if root.exists() and not any(root.iterdir()):
        root.rmdir()
