"""The configuration file as values; its schema and defaults are ``wire/schemas/extender.json``."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from gpustack.wire import config


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator decides.

    Attributes:
        host: address to listen on, loopback.
        port: TCP port; 0 takes a free one (tests).
        kubeconfig: our identity at the API server.
        domain: domain of resources and annotations.
        reservation_seconds: how long an unbound pod keeps its cards.
        decision_seconds: longest time for one decision, its write included.
        request_limit_bytes: largest request body.
        threads: requests answered at the same time.
        watch_idle_seconds: silence after which a watch is opened again.
        log_level: name of the least severe level to log, upper case.
    """

    host: str
    port: int
    kubeconfig: Path
    domain: str
    reservation_seconds: float
    decision_seconds: float
    request_limit_bytes: int
    threads: int
    watch_idle_seconds: float
    log_level: str


def load(path: Path) -> Settings:
    """Read and check a configuration file.

    Raises:
        ConfigError: unreadable, against the schema, or listening beyond this host.
    """
    values = config.load_config(path, "extender")
    host, _, port = str(values["listen"]).rpartition(":")
    host = host.strip("[]")
    problem = _listen_problem(host, int(port))
    if problem:
        raise config.ConfigError(path, [f"listen: {values['listen']!r} {problem}"])
    return Settings(
        host=host,
        port=int(port),
        kubeconfig=Path(values["kubeconfig"]),
        domain=values["domain"],
        reservation_seconds=values["reservation_seconds"],
        decision_seconds=values["decision_seconds"],
        request_limit_bytes=values["request_limit_bytes"],
        threads=values["threads"],
        watch_idle_seconds=values["watch_idle_seconds"],
        log_level=str(values["log_level"]).upper(),
    )


def _listen_problem(host: str, port: int) -> str:
    """Say what is wrong with an address; empty when nothing is."""
    if port > 65535:
        return "has no such port; write 1 to 65535"
    if host == "localhost":
        return ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "is not an IP address; write 127.0.0.1:3456"
    if not address.is_loopback:
        # Whoever reaches the port can have cards reserved for any pod.
        return "is not a loopback address; plain HTTP is served to this host only"
    return ""
