"""The extender's own program beside a real control plane, and what a scheduler needs to call it."""

import contextlib
import dataclasses
import http.client
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from gpustack.wire.annotations import Keys
from tests.control_plane.processes import Process, free_port, running

KEYS = Keys("tencent.com")
_CALL_SECONDS = 30.0


@dataclasses.dataclass(slots=True, kw_only=True)
class RunningExtender:
    """A `gpustack-extender` process."""

    process: Process
    port: int

    def scheduler_configuration(self) -> dict[str, Any]:
        """Return the scheduler's part that calls it: the contract's entry, without TLS."""
        return {
            "percentageOfNodesToScore": 100,
            "extenders": [
                {
                    "urlPrefix": f"http://127.0.0.1:{self.port}/scheduler",
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
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=_CALL_SECONDS)

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
    folder: pathlib.Path, kubeconfig: pathlib.Path, *, port: int = 0, **settings: Any
) -> Iterator[RunningExtender]:
    """Run an extender as long as the block does; it is ready when the block begins.

    Args:
        folder: gets its configuration and log.
        kubeconfig: its identity.
        port: where it listens; 0 for a free port.
        settings: what its configuration says beside these.
    """
    port = port or free_port()
    file = folder / f"extender-{port}.yml"
    values = {"listen": f"127.0.0.1:{port}", "kubeconfig": str(kubeconfig), **settings}
    file.write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "extender.main", "--config", str(file)]
    with running(command, folder / f"extender-{port}.log") as process:
        found = RunningExtender(process=process, port=port)
        process.wait_until(found.ready)
        yield found


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
