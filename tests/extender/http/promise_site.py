"""A server of the extender, driven from outside, for the tests of its promises."""

import functools
import ssl
from pathlib import Path

from tests.extender import client, process
from tests.extender.client import Answer, call
from tests.extender.mini_cluster import PREDICATES
from tests.fakes.kube_api import FakeKubeApi
from tests.testbed.host_files import certificates


class Site:
    """A server that runs, and the certificates of its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certificates.authority("authority")
        self.root = self.authority.pair.store(folder, "authority")
        self.renew()
        self.api: FakeKubeApi
        self.running: process.Process
        self.inside = self.go = -1

    def renew(self) -> None:
        """Give the server another certificate, in place of the one before."""
        self.server = self.authority.server("server", ("127.0.0.1",)).store(self.folder, "server")

    @property
    def tls(self) -> dict[str, str]:
        files = (self.server.certificate, self.server.key, self.root.certificate)
        return dict(zip(("certificate", "key", "client_ca"), map(str, files), strict=True))

    def context(self, name: str = "system:kube-scheduler") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.root.certificate)
        stored = self.authority.client(name).store(self.folder, name.partition(":")[0])
        context.load_cert_chain(stored.certificate, stored.key)
        return context

    @functools.cached_property
    def scheduler(self) -> ssl.SSLContext:
        return self.context()

    def connect(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """Open a connection under TLS, as the scheduler unless told otherwise."""
        plain = self.running.connect()
        plain.settimeout(client.WAIT_SECONDS)
        return (context or self.scheduler).wrap_socket(plain, server_hostname="127.0.0.1")

    def decide(self, context: ssl.SSLContext | None = None, body: bytes = b"{}") -> Answer:
        """Ask for a decision with a body that the verb refuses with an answer."""
        context = context or self.scheduler
        return call(self.running.port, "POST", PREDICATES, body, context=context)

    def get(self, path: str) -> Answer:
        return call(self.running.port, "GET", path, context=self.scheduler)

    @property
    def pid(self) -> int:
        return self.running.worker

    def status(self, field: str) -> int:
        """A number of the process that answers, as the kernel shows it."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.partition(f"{field}:")[2].split()[0])
