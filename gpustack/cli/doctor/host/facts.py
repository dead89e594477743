"""What the checks of a host are about, as values."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpustack.wire.files.certificates import Validity

GPU_HOST: Final = "GPU host"
CONFIG: Final = "agent.yml"
SETTINGS: Final = "its settings"
NVML: Final = "NVML"
MODULE_VERSION: Final = "the module's version"
MODULES: Final = "modules"
DEVICE_NODES: Final = "device nodes"
AGENT: Final = "agent.sock"
READINESS: Final = "readyz"
PLUGINS: Final = "device-plugins"
REGISTRY: Final = "plugins_registry"
POD_RESOURCES: Final = "PodResources"
RUNTIME: Final = "runtime"
HOOK: Final = "hook"
MOUNTS: Final = "mounts"
KUBECONFIG: Final = "kubeconfig"
SCHEDULERS: Final = "schedulers"
METRICS: Final = "metrics"
TOKENS: Final = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlAnswer:
    """What the driver's library says.

    Attributes:
        driver: the version of the driver that is loaded.
        minors: of the cards that answer.
        left_out: the others, each with why.
    """

    driver: str
    minors: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A certificate or token with which a daemon asks the API server.

    Attributes:
        name: its field.
        place: the file; empty where it stands in the kubeconfig itself.
        validity: for how long it holds; None where it doesn't say, or can't be read.
        problem: why it can't be read.
    """

    name: str
    place: str = ""
    validity: Validity | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsAddress:
    """An address on which a daemon lets other machines read its metrics.

    Attributes:
        daemon: its unit.
        listen: the address and port of its configuration.
        tokens: whether it takes tokens.
        certificate: what it shows.
        problem: why it gives no answer.
        unnamed: a name by which readers come, and that the certificate doesn't have.
        status: of its answer to a reader without rights; None where it gave none.
    """

    daemon: str
    listen: str
    tokens: bool
    certificate: Credential
    problem: str = ""
    unnamed: str = ""
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFile:
    """A configuration of kube-scheduler on this host.

    Attributes:
        path: the file.
        value: what it says; None where it can't be read.
        problem: why it can't be read.
    """

    path: str
    value: Any = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """A host at one moment; what could not be read has its empty value.

    Attributes:
        now: the moment.
        version: of this command.
        config_path: the agent's configuration.
        config: what it says, with defaults.
        nvml: what the driver's library says; None where it doesn't answer.
        mismatch: why the library doesn't fit the driver; empty where it does.
        module_version: of the module nvidia that is loaded; empty where none is.
        modules: the names of those of the driver that are loaded.
        device_nodes: paths that a container needs, each with what is wrong; empty for nothing.
        agent_version: of the agent that runs.
        unready: what keeps it from taking work.
        plugin_sockets: the names of the sockets in the kubelet's device-plugins.
        registry_sockets: those in its plugins_registry.
        runtime: the container runtime's name and version.
        hook: the folder of the hook's build.
        mount_socket: the socket of gpustack-mount.
        credentials: of the agent's kubeconfig.
        schedulers: the configurations of schedulers on this host.
        metrics: the addresses on which other machines read metrics.
        tokens: of the extender, and of a scheduler of our own.
        unread: why an input can't be read, by its name.
        absent: why an input isn't looked at, by its name.
    """

    now: datetime.datetime
    version: str
    config_path: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    nvml: NvmlAnswer | None = None
    mismatch: str = ""
    module_version: str = ""
    modules: frozenset[str] = frozenset()
    device_nodes: Mapping[str, str] = field(default_factory=dict)
    agent_version: str = ""
    unready: tuple[str, ...] = ()
    plugin_sockets: frozenset[str] = frozenset()
    registry_sockets: frozenset[str] = frozenset()
    runtime: str = ""
    hook: str = ""
    mount_socket: str = ""
    credentials: tuple[Credential, ...] = ()
    schedulers: tuple[SchedulerFile, ...] = ()
    metrics: tuple[MetricsAddress, ...] = ()
    tokens: tuple[Credential, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def unread_mend(self) -> str:
        """What helps is what each check says: an input that can't be read is its own fault."""
        return ""
