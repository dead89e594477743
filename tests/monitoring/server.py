"""A Prometheus on a port of loopback, with the rules of the repository, and its answers."""

import contextlib
import json
import pathlib
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tests.control_plane import processes
from tests.monitoring.tools import RULES, program
from tests.waiting import SECONDS


@dataclass(frozen=True, slots=True)
class Server:
    """The running program, and its port."""

    process: processes.Process
    port: int

    def ask(self, path: str, **parameters: str) -> Any:
        """Return what its API says."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return json.load(answer)["data"]

    def has(self, expression: str) -> bool:
        """Say whether an expression returns data now."""
        return bool(self.ask("query", query=expression)["result"])

    def alerts(self) -> set[str]:
        """Return the names of the alerts that are pending or fire."""
        return {each["labels"]["alertname"] for each in self.ask("alerts")["alerts"]}

    def answers(self) -> bool:
        """Say whether it is ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready"):
                return True
        except OSError:
            return False


@contextlib.contextmanager
def prometheus(
    folder: pathlib.Path, jobs: list[dict[str, Any]], *, rules: Sequence[pathlib.Path] = RULES
) -> Iterator[Server]:
    """Run Prometheus, which scrapes these jobs every second, until the block ends."""
    port = processes.free_port()
    config = folder / "prometheus.yml"
    pace = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    values = {"global": pace, "rule_files": list(map(str, rules)), "scrape_configs": jobs}
    config.write_text(yaml.safe_dump(values))
    command: list[str | pathlib.Path] = [
        program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    server = Server(processes.Process(command, folder / "prometheus.log"), port)
    try:
        server.process.wait_until(server.answers)
        yield server
    finally:
        server.process.end()
