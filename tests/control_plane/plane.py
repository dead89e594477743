"""etcd and kube-apiserver with RBAC, and a kube-scheduler when one is asked for."""

import contextlib
import dataclasses
import json
import pathlib
import ssl
import urllib.request
from collections.abc import Iterator

import yaml

from tests.control_plane.processes import Process, free_port, running
from tests.testbed import root
from tests.testbed.artifacts import kubernetes
from tests.testbed.host_files import certificates

# What a cluster without kubelets and controllers would wait for in vain.
_WITHOUT = "ServiceAccount,TaintNodesByCondition,DefaultTolerationSeconds"


@dataclasses.dataclass(slots=True, kw_only=True)
class ControlPlane:
    """A running one.

    Attributes:
        folder: its files and logs.
        release: whose programs it runs.
        server: the API server's URL.
        authority: signs identities that the API server knows.
        admin: kubeconfig of an administrator, whom nothing throttles.
        api_server: the process, for tests that stop it.
        etcd: the process.
    """

    folder: pathlib.Path
    release: kubernetes.Release
    server: str
    authority: certificates.Authority
    admin: pathlib.Path
    api_server: Process
    etcd: Process

    def kubeconfig(self, user: str, groups: tuple[str, ...] = ()) -> pathlib.Path:
        """Write and return a kubeconfig for a user."""
        file = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        pair = self.authority.client(user, groups)
        file.write_bytes(
            certificates.kubeconfig(self.server, self.authority.pair.certificate, user, pair)
        )
        return file

    def token_kubeconfig(self, user: str, token: str) -> pathlib.Path:
        """Write and return a kubeconfig whose token proves its user."""
        file = self.kubeconfig(user)
        value = json.loads(file.read_text())
        value["users"][0]["user"] = {"token": token}
        file.write_text(json.dumps(value))
        return file

    @contextlib.contextmanager
    def scheduler(
        self, configuration: dict[str, object], name: str, *more: str
    ) -> Iterator[Process]:
        """Run kube-scheduler with a KubeSchedulerConfiguration.

        Args:
            configuration: beside the connection to the API server.
            name: names its files.
            more: arguments of its own.
        """
        file = self.folder / f"{name}.yaml"
        connection = {
            "kubeconfig": str(self.kubeconfig("system:kube-scheduler")),
            # the defaults of 50 and 100 a second would be what is measured
            "qps": 5000,
            "burst": 5000,
        }
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "leaderElection": {"leaderElect": False},
                    "clientConnection": connection,
                    **configuration,
                }
            )
        )
        arguments = [f"--config={file}", *more]
        with self._running_scheduler(self.release, arguments, name) as process:
            yield process

    @contextlib.contextmanager
    def policy_scheduler(self, policy: dict[str, object], name: str) -> Iterator[Process]:
        """Run kube-scheduler 1.22, the last that reads a Policy; ``name`` names its files."""
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(policy))
        arguments = [
            f"--policy-config-file={file}",
            "--use-legacy-policy-config=true",
            f"--kubeconfig={self.kubeconfig('system:kube-scheduler')}",
            "--leader-elect=false",
            # this release asks for a version of those objects that is served no more
            "--feature-gates=CSIStorageCapacity=false",
        ]
        with self._running_scheduler(kubernetes.POLICY, arguments, name) as process:
            yield process

    @contextlib.contextmanager
    def _running_scheduler(
        self, release: kubernetes.Release, arguments: list[str], name: str
    ) -> Iterator[Process]:
        port = free_port()
        command: list[str | pathlib.Path] = [
            release.bin / "kube-scheduler",
            *arguments,
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
        ]
        with running(command, self.folder / f"{name}.log") as process:
            process.wait_until(lambda: _answers(f"https://127.0.0.1:{port}/healthz", None))
            yield process


@contextlib.contextmanager
def start(
    folder: pathlib.Path, *more: str, release: kubernetes.Release = kubernetes.CURRENT
) -> Iterator[ControlPlane]:
    """Run a control plane as long as the block does.

    Args:
        folder: an empty folder for its certificates, data and logs.
        more: arguments of its API server beside ours.
        release: the API server and schedulers that it runs; it has to be built.
    """
    authority = certificates.authority("kubernetes")
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    server = f"https://127.0.0.1:{port}"
    admin = folder / "admin.kubeconfig"
    pair = authority.client("kubernetes-admin", ("system:masters",))
    admin.write_bytes(
        certificates.kubeconfig(server, authority.pair.certificate, "kubernetes-admin", pair)
    )
    with running(_etcd(folder, etcd_port, peer_port), folder / "etcd.log") as etcd:
        etcd.wait_until(lambda: _answers(f"http://127.0.0.1:{etcd_port}/health", None))
        command = [*_api_server(release, folder, authority, etcd_port, port), *more]
        with running(command, folder / "kube-apiserver.log") as api_server:
            context = _context(folder, authority, pair)
            api_server.wait_until(lambda: _answers(f"{server}/readyz", context))
            yield ControlPlane(
                folder=folder,
                release=release,
                server=server,
                authority=authority,
                admin=admin,
                api_server=api_server,
                etcd=etcd,
            )


def _etcd(folder: pathlib.Path, port: int, peer_port: int) -> list[str | pathlib.Path]:
    address, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        root.program("etcd"),
        "--name=default",
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",  # the data is thrown away: nothing is gained by waiting for the disk
        f"--listen-client-urls={address}",
        f"--advertise-client-urls={address}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--quota-backend-bytes={8 << 30}",
        "--log-level=warn",
    ]


def _api_server(
    release: kubernetes.Release,
    folder: pathlib.Path,
    authority: certificates.Authority,
    etcd_port: int,
    port: int,
) -> list[str | pathlib.Path]:
    private, public = certificates.signing_key()
    serving = authority.server("kube-apiserver", ("127.0.0.1", "localhost"))
    files = {
        "ca.crt": authority.pair.certificate,
        "apiserver.crt": serving.certificate,
        "apiserver.key": serving.key,
        "sa.key": private,
        "sa.pub": public,
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [
        release.bin / "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--authorization-mode=Node,RBAC",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--disable-admission-plugins={_WITHOUT}",
    ]


def _context(
    folder: pathlib.Path, authority: certificates.Authority, pair: certificates.Pair
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    certificate, key = folder / "admin.crt", folder / "admin.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    context.load_cert_chain(certificate, key)
    return context


def _answers(url: str, context: ssl.SSLContext | None) -> bool:
    """Whether a health page says yes; without ``context`` any certificate will do."""
    if context is None and url.startswith("https:"):
        # kube-scheduler signs its own; nothing but its health is asked
        context = ssl._create_unverified_context()  # noqa: S323
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as response:
            return bool(response.status == 200)
    except OSError:
        return False
