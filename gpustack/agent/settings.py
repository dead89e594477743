"""The agent's configuration as typed values; only the composition root knows it."""

import dataclasses
import pathlib
import socket
from collections.abc import Mapping
from typing import Any

from gpustack.wire.config import load_config


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The values of `gpustack/wire/schemas/agent.json`, with its defaults filled in."""

    node_name: str
    domain: str
    kubeconfig: pathlib.Path
    kubelet_root: pathlib.Path
    cri_endpoint: str
    state_dir: pathlib.Path
    run_dir: pathlib.Path
    log_level: str
    http_address: str
    http_port: int
    http_allowed_hosts: tuple[str, ...]
    hook_version: str
    context_bytes: int
    health_poll_seconds: float
    extra_devices: tuple[str, ...]
    place_undecided: bool

    @property
    def plugin_dir(self) -> pathlib.Path:
        """The kubelet's folder of device plugins."""
        return self.kubelet_root / "device-plugins"

    @property
    def kubelet_checkpoint(self) -> pathlib.Path:
        """The kubelet's checkpoint: the devices that it gave to each container."""
        return self.plugin_dir / "kubelet_internal_checkpoint"

    @property
    def pod_resources_socket(self) -> pathlib.Path:
        """The kubelet's PodResources socket: the devices that it gave to each container."""
        return self.kubelet_root / "pod-resources" / "kubelet.sock"


def load(path: pathlib.Path) -> AgentSettings:
    """Read the configuration file.

    Raises:
        ConfigError: unreadable, or it breaks the schema; lists every problem with its path.
    """
    return from_mapping(load_config(path, "agent"))


def from_mapping(config: Mapping[str, Any]) -> AgentSettings:
    """Turn a checked configuration, defaults included, into settings."""
    return AgentSettings(
        node_name=config["node_name"] or socket.gethostname().lower(),
        domain=config["domain"],
        kubeconfig=pathlib.Path(config["kubeconfig"]),
        kubelet_root=pathlib.Path(config["kubelet_root"]),
        cri_endpoint=config["cri_endpoint"],
        state_dir=pathlib.Path(config["state_dir"]),
        run_dir=pathlib.Path(config["run_dir"]),
        log_level=config["log_level"],
        http_address=config["http"]["address"],
        http_port=config["http"]["port"],
        http_allowed_hosts=tuple(config["http"]["allowed_hosts"]),
        hook_version=config["hook"]["version"],
        context_bytes=config["hook"]["context_bytes"],
        health_poll_seconds=float(config["health"]["poll_seconds"]),
        extra_devices=tuple(config["extra_devices"]),
        place_undecided=config["place_undecided"],
    )
