"""The extender's own program beside a real control plane, and what a scheduler needs to call it."""

import contextlib
import dataclasses
import http.client
import json
import pathlib
import ssl
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpustack.wire.keys import Keys
from tests.control_plane.processes import Process, free_port, running
from tests.testbed.host_files import certificates

KEYS = Keys("tencent.com")
_CALL_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClientFiles:
    """A client's certificate and key, and the authority that signed the server's."""

    certificate: pathlib.Path
    key: pathlib.Path
    authority: pathlib.Path

    def context(self) -> ssl.SSLContext:
        """Return what a Python client uses them by."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclasses.dataclass(slots=True, kw_only=True)
class RunningExtender:
    """A `gpustack-extender` process.

    Attributes:
        process: it.
        port: where it listens on loopback.
        tls: what a client needs to be let in; None where plain HTTP is served.
    """

    process: Process
    port: int
    tls: ClientFiles | None

    def scheduler_configuration(self) -> dict[str, Any]:
        """Return the scheduler's part that calls it, as the role kube_scheduler writes it."""
        scheme = "http" if self.tls is None else "https"
        secured: dict[str, Any] = {}
        if self.tls is not None:
            files = {"certFile": self.tls.certificate, "keyFile": self.tls.key}
            secured = {
                "enableHTTPS": True,
                "tlsConfig": {
                    "insecure": False,
                    "caFile": str(self.tls.authority),
                    **{name: str(file) for name, file in files.items()},
                },
            }
        return {
            "percentageOfNodesToScore": 100,
            "extenders": [
                {
                    **secured,
                    "urlPrefix": f"{scheme}://127.0.0.1:{self.port}/scheduler",
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "bindVerb": "bind",
                    "preemptVerb": "preempt",
                    "weight": 5,
                    "nodeCacheCapable": True,
                    "ignorable": False,
                    "httpTimeout": "10s",
                    "managedResources": [
                        {"name": name, "ignoredByScheduler": False}
                        for name in (KEYS.vcuda_core, KEYS.vcuda_memory)
                    ],
                }
            ],
        }

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection that is kept alive, as a scheduler's is."""
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=_CALL_SECONDS)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=_CALL_SECONDS, context=self.tls.context()
        )

    def ready(self) -> bool:
        """Whether it may decide."""
        try:
            return self.get("/readyz")[0] == http.HTTPStatus.OK
        except OSError:
            return False

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of a page."""
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()


@contextlib.contextmanager
def start(
    folder: pathlib.Path,
    kubeconfig: pathlib.Path,
    *,
    port: int = 0,
    secured: bool = False,
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> Iterator[RunningExtender]:
    """Run an extender as long as the block does; it is ready when the block begins.

    Args:
        folder: gets its configuration and log.
        kubeconfig: its identity.
        port: where it listens; 0 for a free port.
        secured: serve TLS, to clients with kube-scheduler's certificate only.
        environment: what it gets beside our own environment.
        settings: what its configuration says beside these.
    """
    port = port or free_port()
    file = folder / f"extender-{port}.yml"
    values = {"listen": f"127.0.0.1:{port}", "kubeconfig": str(kubeconfig), **settings}
    tls = None
    if secured:
        values["tls"], tls = _certificates(folder)
    file.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "extender.main", "--config", str(file)]
    with running(command, folder / f"extender-{port}.log", environment) as process:
        found = RunningExtender(process=process, port=port, tls=tls)
        process.wait_until(found.ready)
        yield found


def _certificates(folder: pathlib.Path) -> tuple[dict[str, str], ClientFiles]:
    """Make both sides' certificates; returns the extender's setting and the client's files."""
    authority = certificates.authority("gpustack-extender-ca")
    server = authority.server("gpustack-extender", ("127.0.0.1",))
    client = authority.client("system:kube-scheduler")
    files = {
        "extender-ca.crt": authority.pair.certificate,
        "extender-server.crt": server.certificate,
        "extender-server.key": server.key,
        "extender-client.crt": client.certificate,
        "extender-client.key": client.key,
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    setting = {
        "certificate": str(folder / "extender-server.crt"),
        "key": str(folder / "extender-server.key"),
        "client_ca": str(folder / "extender-ca.crt"),
    }
    return setting, ClientFiles(
        certificate=folder / "extender-client.crt",
        key=folder / "extender-client.key",
        authority=folder / "extender-ca.crt",
    )


def call(connection: http.client.HTTPConnection, path: str, body: bytes) -> Any:
    """Ask as a scheduler does; returns the decoded answer.

    Raises:
        AssertionError: the answer is not a 200.
    """
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    raw = response.read()
    assert response.status == http.HTTPStatus.OK, (response.status, raw[:500])
    return json.loads(raw)
