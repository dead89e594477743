"""The agent's configuration as typed values; only the composition root knows it."""

import dataclasses
import pathlib
import re
import socket
from collections.abc import Mapping
from typing import Any, Final

from gpustack.adapters.web import remote_metrics
from gpustack.wire import schemas
from gpustack.wire.config import ConfigError, load_config
from gpustack.wire.files.original_config import VolumeNames, extra_devices, volume_names

# Of the domains that the schema allows, CDI takes these (ValidateVendorName in its pkg/parser).
_CDI_VENDOR: Final = re.compile(r"[a-z][-a-z0-9.]*[a-z0-9]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The values of `gpustack/wire/schemas/agent.json`, with its defaults filled in.

    Attributes:
        file: where they were read.
    """

    file: pathlib.Path
    node_name: str
    domain: str
    kubeconfig: pathlib.Path
    kubelet_root: pathlib.Path
    cri_endpoint: str
    state_dir: pathlib.Path
    run_dir: pathlib.Path
    mount_socket: str
    log_level: str
    http_address: str
    http_port: int
    http_allowed_hosts: tuple[str, ...]
    metrics: remote_metrics.RemoteMetrics | None
    hook_version: str
    context_bytes: int
    health_poll_seconds: float
    health_probe_seconds: float
    health_ignored_xids: tuple[int, ...]
    extra_devices: tuple[str, ...]
    place_undecided: bool
    collect_gpu_time: bool
    on_violation: str
    driver_volume_config: VolumeNames | None
    driver_library_path: str
    node_labels: Mapping[str, str]
    sample_period_seconds: float
    cri_timeout_seconds: float
    virtual_manager_serve: str
    virtual_manager_path: pathlib.Path
    cdi_enabled: bool
    cdi_spec_dir: pathlib.Path

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

    @property
    def control_socket(self) -> pathlib.Path:
        """The agent's own socket, for root on its host."""
        return self.run_dir / "agent.sock"


def load(path: pathlib.Path) -> AgentSettings:
    """Read the configuration file.

    Raises:
        ConfigError: unreadable, or it breaks the schema; lists every problem with its path. So for
            a file of the original's that it names.
    """
    return from_mapping(load_config(path, "agent"), path)


def from_mapping(config: Mapping[str, Any], file: pathlib.Path) -> AgentSettings:
    """Turn a checked configuration, defaults included, into settings.

    Raises:
        ConfigError: a file of the original's that it names can't be used, CDI is on and the
            domain can't be the vendor, or nobody may read at the address of metrics.
    """
    if config["cdi"]["enabled"] and _CDI_VENDOR.fullmatch(config["domain"]) is None:
        problem = f"domain: {config['domain']!r} does not begin with a letter, as a CDI vendor does"
        raise ConfigError(file, [f"{problem}; change it, or set cdi.enabled to false"])
    driver = config["driver"]
    metrics, problems = remote_metrics.read(config["metrics"])
    if problems:
        raise ConfigError(file, problems)
    return AgentSettings(
        file=file,
        node_name=config["node_name"] or socket.gethostname().lower(),
        domain=config["domain"],
        kubeconfig=pathlib.Path(config["kubeconfig"]),
        kubelet_root=pathlib.Path(config["kubelet_root"]),
        cri_endpoint=config["cri_endpoint"],
        state_dir=pathlib.Path(config["state_dir"]),
        run_dir=pathlib.Path(config["run_dir"]),
        mount_socket=config["mount_socket"],
        log_level=config["log_level"],
        http_address=config["http"]["address"],
        http_port=config["http"]["port"],
        http_allowed_hosts=tuple(config["http"]["allowed_hosts"]),
        metrics=metrics,
        hook_version=config["hook"]["version"],
        context_bytes=config["hook"]["context_bytes"],
        health_poll_seconds=float(config["health"]["poll_seconds"]),
        health_probe_seconds=float(config["health"]["probe_seconds"]),
        health_ignored_xids=tuple(config["health"]["ignored_xids"]),
        extra_devices=_extra_devices(config),
        place_undecided=config["place_undecided"],
        collect_gpu_time=config["collect_gpu_time"],
        on_violation=config["on_violation"],
        driver_volume_config=_volume_names(driver["volume_config"]),
        driver_library_path=driver["library_path"],
        node_labels=dict(config["node_labels"]),
        sample_period_seconds=float(config["sample_period_seconds"]),
        cri_timeout_seconds=float(config["cri_timeout_seconds"]),
        virtual_manager_serve=config["virtual_manager"]["serve"],
        virtual_manager_path=pathlib.Path(config["virtual_manager"]["path"]),
        cdi_enabled=config["cdi"]["enabled"],
        cdi_spec_dir=pathlib.Path(config["cdi"]["spec_dir"]),
    )


def _volume_names(path: str) -> VolumeNames | None:
    return volume_names(pathlib.Path(path)) if path else None


def _extra_devices(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the nodes of both places, each once."""
    more = extra_devices(pathlib.Path(config["extra_config"])) if config["extra_config"] else ()
    return tuple(dict.fromkeys((*config["extra_devices"], *more)))


def key_of(field: str) -> str:
    """Return a setting's key in agent.yml: `health.poll_seconds` of `health_poll_seconds`."""
    properties = schemas.load("agent")["properties"]
    if field in properties:
        return field
    keys = [(folder, name) for folder in properties for name in _names(properties[folder])]
    full = {f"{folder}_{name}": f"{folder}.{name}" for folder, name in keys}
    return full.get(field) or next(
        (f"{each}.{name}" for each, name in keys if name == field), field
    )


def _names(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    names: Mapping[str, Any] = schema.get("properties", {})
    return names
