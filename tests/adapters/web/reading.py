"""A server with TLS, who judges its readers, and the readers."""

import contextlib
import http.client
import pathlib
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpustack.adapters.kube import KubeClient, TokenReviewer
from gpustack.adapters.web.exchange import Response
from gpustack.adapters.web.listener import Bounds, Listener, Security
from gpustack.adapters.web.readers import Readers
from gpustack.adapters.web.server import WebServer
from gpustack.adapters.web.tls import TlsContexts, TlsFiles
from gpustack.adapters.web.token_verdicts import TokenVerdicts
from tests.fakes.kube_api import FakeKubeApi
from tests.testbed.host_files import certificates
from tests.waiting import SECONDS, running

PROMETHEUS = "system:serviceaccount:monitoring:prometheus"
TOKEN = "prometheus.s.token"  # noqa: S105 (known to the fake alone)


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Site:
    """An authority, a server's certificate of it, and an API server that knows Prometheus."""

    folder: pathlib.Path
    api: FakeKubeApi
    clock: Clock = field(default_factory=Clock)
    authority: certificates.Authority = field(
        default_factory=lambda: certificates.authority("authority")
    )
    port: int = 0

    def __post_init__(self) -> None:
        self.root = self.authority.pair.store(self.folder, "authority")
        self.renew()
        self.api.tokens[TOKEN] = {
            "username": PROMETHEUS,
            "uid": "5",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
        }
        self.api.rights.add((PROMETHEUS, "get", "/metrics"))

    def renew(self) -> None:
        """Give the server another certificate, in place of the one before."""
        self.served = self.authority.server("server", ("127.0.0.1",))
        self.served.store(self.folder, "server")

    def files(self, *, client_required: bool = False) -> TlsFiles:
        return TlsFiles(
            certificate=self.folder / "server.crt",
            key=self.folder / "server.key",
            client_ca=self.root.certificate,
            section="metrics",
            client_required=client_required,
        )

    def verdicts(self) -> TokenVerdicts:
        client = KubeClient.from_kubeconfig(self.api.write_kubeconfig(self.folder / "kubeconfig"))
        return TokenVerdicts(TokenReviewer(client, "/metrics").judge, clock=self.clock)

    def context(self, client: certificates.Pair | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.root.certificate)
        if client is not None:
            stored = client.store(self.folder, "client")
            context.load_cert_chain(stored.certificate, stored.key)
        return context

    def ask(
        self,
        token: str = "",
        *,
        path: str = "/metrics",
        client: certificates.Pair | None = None,
        **headers: str,
    ) -> Answer:
        """Ask as Prometheus does."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=SECONDS, context=self.context(client)
        )
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    @contextlib.contextmanager
    def serving(
        self,
        *,
        tokens: bool = True,
        body: bytes = b"up 1\n",
        bounds: Bounds | None = None,
        files: Callable[[], TlsFiles] | None = None,
    ) -> Iterator[WebServer]:
        contexts = TlsContexts((files or self.files)(), required=False)
        security = Security(contexts, Readers(self.verdicts() if tokens else None))
        listener = Listener(
            address="127.0.0.1", port=0, security=security, bounds=bounds or Bounds()
        )
        server = WebServer({listener: {"/metrics": lambda _: Response(body=body)}})
        self.port = server.ports[0]
        with running(server.run):
            yield server
