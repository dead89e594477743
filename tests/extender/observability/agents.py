"""Agents at real addresses with TLS, honest and hostile, and the extender that asks them."""

import concurrent.futures
import contextlib
import pathlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from extender.cache.cache import ClusterCache
from extender.cache.decode import NodeState
from extender.observability.agent_usage import AgentUsage, Pace
from extender.observability.card_utilisation import CardUtilisation
from extender.settings import UsageSource
from gpustack.adapters.web.exchange import Response
from gpustack.adapters.web.listener import Listener, Security
from gpustack.adapters.web.readers import Readers
from gpustack.adapters.web.server import WebServer
from gpustack.adapters.web.tls import ClientTlsFiles, TlsContexts, TlsFiles
from gpustack.model.cluster.eligibility import Host
from gpustack.model.node import Card, Node
from tests.control_plane import processes
from tests.extender import states
from tests.testbed.host_files import certificates
from tests.waiting import SECONDS, running

QUICK = Pace(every_seconds=0.0, at_once=8)
BUILD = b'# HELP gpustack_build_info x\ngpustack_build_info{version="0",node="n"} 1.0\n'


def node(name: str) -> Node:
    """Return a node of two cards."""
    made = (
        Card(minor=minor, uuid=f"GPU-{name}-{minor}", model="NVIDIA T4", memory_bytes=1 << 34)
        for minor in range(2)
    )
    return Node(name=name, cards=tuple(made))


def metrics(of: Node, *ratios: object) -> bytes:
    """Return an agent's metrics with these ratios, one a card."""
    samples = (
        f'gpustack_card_busy_ratio{{minor="{card.minor}",uuid="{card.uuid}"}} {ratio}\n'
        for card, ratio in zip(of.cards, ratios, strict=True)
    )
    return BUILD + "".join(samples).encode() + b'up{a="b"} 1.0\n'


def answer(body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n") -> bytes:
    """Return what a server sends that answers with this body."""
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


@dataclass
class Site:
    """Nodes at addresses of loopback, an authority of their certificates, and one of readers'."""

    folder: pathlib.Path
    servers: certificates.Authority = field(
        default_factory=lambda: certificates.authority("cluster")
    )
    readers: certificates.Authority = field(
        default_factory=lambda: certificates.authority("extender")
    )
    port: int = field(default_factory=processes.free_port)
    cache: ClusterCache = field(default_factory=states.view)
    usage: CardUtilisation = field(default_factory=CardUtilisation)
    pace: Pace = QUICK
    asked: list[bytes] = field(default_factory=list)  # of hostile agents
    _at: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> UsageSource:
        own = self.readers.client("gpustack-extender").store(self.folder, "reader")
        files = ClientTlsFiles(
            certificate=own.certificate,
            key=own.key,
            ca=self.servers.pair.store(self.folder, "cluster").certificate,
            section="usage",
        )
        return UsageSource(port=self.port, tls=files)

    def add(self, *names: str) -> None:
        """Let the cache know of nodes, each at an address of its own."""
        for name in names:
            self.place(name, f"127.0.0.{2 + len(self._at)}")

    def place(self, name: str, address: str) -> None:
        self._at[name] = address
        state = NodeState(node=node(name), version=len(self._at), host=Host(address=address))
        self.cache.node_event("ADDED", state)

    def round(self) -> AgentUsage:
        """Ask all of them once."""
        asking = AgentUsage(self.cache, self.usage, self.source, pace=self.pace)
        with concurrent.futures.ThreadPoolExecutor(self.pace.at_once) as threads:
            asking.round(threads)
        return asking

    def busy(self, name: str) -> list[float]:
        """Return what is known of a node's cards, by UUID."""
        return [ratio for _, ratio in sorted(self.usage.busy(node(name)).items())]

    def _files(self, name: str, pair: certificates.Pair | None) -> certificates.Stored:
        pair = pair or self.servers.server(name, (self._at[name],))
        return pair.store(self.folder, name)

    @contextlib.contextmanager
    def honest(self, name: str, body: bytes) -> Iterator[None]:
        """Serve a node's metrics as its agent does, to readers with a certificate."""
        stored = self._files(name, None)
        files = TlsFiles(
            certificate=stored.certificate,
            key=stored.key,
            client_ca=self.readers.pair.store(self.folder, "readers").certificate,
            section="metrics",
        )
        security = Security(TlsContexts(files), Readers(None))
        listener = Listener(address=self._at[name], port=self.port, security=security)
        with running(WebServer({listener: {"/metrics": lambda _: Response(body=body)}}).run):
            yield

    @contextlib.contextmanager
    def hostile(
        self,
        name: str,
        act: Callable[[ssl.SSLSocket, threading.Event], None],
        pair: certificates.Pair | None = None,
    ) -> Iterator[None]:
        """Let a node's address do with each connection what it likes, until it is told to end."""
        stored = self._files(name, pair)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(stored.certificate, stored.key)
        context.load_verify_locations(self.readers.pair.store(self.folder, "readers").certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        listening = socket.create_server((self._at[name], self.port))

        def serve(over: threading.Event) -> None:
            with contextlib.suppress(OSError):  # the asker has gone, or refuses the certificate
                client, _ = listening.accept()
                client.settimeout(SECONDS)
                with context.wrap_socket(client, server_side=True) as conversation:
                    self.asked.append(conversation.recv(4096))
                    act(conversation, over)

        with listening, running(serve):
            yield
