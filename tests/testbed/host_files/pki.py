"""The test cluster's certificates and kubeconfigs, by host.

Made anew at every ``up``; only the administrator's kubeconfig and the authority are kept, in the
state folder, for tests that sign identities of their own.
"""

import dataclasses

from tests.testbed import description
from tests.testbed.host_files import certificates, files

# inside the cluster the API server is known by its service's address and names
SERVICE_NAMES = (
    "10.96.0.1",
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SECRET_MODE = 0o600
KUBERNETES = "/etc/kubernetes"
PKI = f"{KUBERNETES}/pki"


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterPki:
    """The authorities of a cluster and the address of its API server."""

    testbed: description.Testbed
    authority: certificates.Authority
    etcd_authority: certificates.Authority
    front_proxy_authority: certificates.Authority
    accounts_key: tuple[bytes, bytes]  # private and public; it signs the tokens of accounts

    def kubeconfig(self, user: str, groups: tuple[str, ...], host: description.Host) -> bytes:
        """Return a kubeconfig for a new certificate of this user, and the API server of a host."""
        pair = self.authority.client(user, groups)
        server = f"https://{host.address}:6443"
        return certificates.kubeconfig(server, self.authority.pair.certificate, user, pair)

    def admin_kubeconfig(self, host: description.Host) -> bytes:
        """Return the kubeconfig of an administrator."""
        return self.kubeconfig("kubernetes-admin", ("system:masters",), host)

    def control_plane_files(self, host: description.Host) -> list[files.Entry]:
        """Return the files of a control plane's /etc/kubernetes, as kubeadm lays them out."""
        private, public = self.accounts_key
        kubelet_client = self.authority.client("kube-apiserver-kubelet-client", ("system:masters",))
        front_proxy_client = self.front_proxy_authority.client("front-proxy-client")
        etcd_client = self.etcd_authority.client("kube-apiserver-etcd-client")
        return [
            *_pair(f"{PKI}/ca", self.authority.pair),
            *_pair(
                f"{PKI}/apiserver",
                self.authority.server("kube-apiserver", (host.name, host.address, *SERVICE_NAMES)),
            ),
            *_pair(f"{PKI}/apiserver-kubelet-client", kubelet_client),
            *_pair(f"{PKI}/apiserver-etcd-client", etcd_client),
            *_pair(f"{PKI}/front-proxy-ca", self.front_proxy_authority.pair),
            *_pair(f"{PKI}/front-proxy-client", front_proxy_client),
            *_pair(f"{PKI}/etcd/ca", self.etcd_authority.pair),
            *_pair(
                f"{PKI}/etcd/server",
                self.etcd_authority.server("etcd-server", ("localhost", "127.0.0.1", host.address)),
            ),
            _secret(f"{PKI}/sa.key", private),
            files.File(f"{PKI}/sa.pub", public),
            _secret(f"{KUBERNETES}/admin.conf", self.admin_kubeconfig(host)),
            *(
                _secret(
                    f"{KUBERNETES}/{name}.conf", self.kubeconfig(f"system:kube-{name}", (), host)
                )
                for name in ("scheduler", "controller-manager")
            ),
        ]

    def gpu_host_files(self, host: description.Host) -> list[files.Entry]:
        """Return the files of a GPU host's /etc/kubernetes."""
        server = self.testbed.control_plane
        identity = self.kubeconfig(f"system:node:{host.name}", ("system:nodes",), server)
        return [
            files.File(f"{PKI}/ca.crt", self.authority.pair.certificate),
            _secret(f"{KUBERNETES}/kubelet.conf", identity),
        ]


def make(testbed: description.Testbed) -> ClusterPki:
    """Make new authorities and keep the cluster's own, and the administrator's kubeconfig."""
    pki = ClusterPki(
        testbed,
        certificates.authority("kubernetes"),
        certificates.authority("etcd-ca"),
        certificates.authority("front-proxy-ca"),
        certificates.signing_key(),
    )
    folder = testbed.state / "pki"
    folder.mkdir(mode=0o700)
    (folder / "ca.crt").write_bytes(pki.authority.pair.certificate)
    (folder / "ca.key").write_bytes(pki.authority.pair.key)
    testbed.kubeconfig.touch(mode=SECRET_MODE)
    testbed.kubeconfig.write_bytes(pki.admin_kubeconfig(testbed.control_plane))
    return pki


def _pair(path: str, pair: certificates.Pair) -> list[files.Entry]:
    return [files.File(f"{path}.crt", pair.certificate), _secret(f"{path}.key", pair.key)]


def _secret(path: str, data: bytes) -> files.File:
    return files.File(path, data, mode=SECRET_MODE)
