"""Reading what the checks of a host need: each thing by itself, for a few seconds at most."""

import argparse
import datetime
import functools
import pathlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import gpustack
from gpustack.cli.doctor.host import driver, facts, local_files, metrics_listener, services
from gpustack.cli.doctor.host.facts import Credential, HostFacts, NvmlAnswer
from gpustack.model.errors import GpustackError
from gpustack.wire.config import ConfigError, load_config

AGENT_CONFIG: Final = pathlib.Path("/etc/gpustack/agent.yml")
EXTENDER_CONFIG: Final = pathlib.Path("/etc/gpustack/extender.yml")
SCHEDULER_CONFIGS: Final = (
    pathlib.Path("/etc/kubernetes/scheduler-config.yaml"),
    pathlib.Path("/etc/kubernetes/scheduler-policy-config.json"),
    pathlib.Path("/etc/gpustack/scheduler/kube-scheduler.yaml"),
)
"""Where the role kube_scheduler has them by default."""

_SECONDS: Final = 15.0  # longer than any time limit below: what takes more hangs in the kernel
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLocations:
    """Where things are on a host.

    Attributes:
        agent_config: the agent's configuration.
        extender_config: the extender's.
        schedulers: configurations of kube-scheduler, those that are there.
        devices: device nodes.
        modules: loaded modules, a folder each.
    """

    agent_config: pathlib.Path = AGENT_CONFIG
    extender_config: pathlib.Path = EXTENDER_CONFIG
    schedulers: tuple[pathlib.Path, ...] = SCHEDULER_CONFIGS
    devices: pathlib.Path = pathlib.Path("/dev")
    modules: pathlib.Path = pathlib.Path("/sys/module")


def paths(chosen: argparse.Namespace) -> HostLocations:
    """Return where the options say that things are."""
    found = HostLocations(agent_config=chosen.agent_config or AGENT_CONFIG)
    if chosen.scheduler_config is not None:
        found = replace(found, schedulers=(chosen.scheduler_config,))
    return found


def read(where: HostLocations) -> HostFacts:
    """Return the facts of this host."""
    reader = _Reader()
    schedulers = reader.take(facts.SCHEDULERS, lambda: local_files.schedulers(where.schedulers))
    extender = functools.partial(metrics_listener.of_config, where.extender_config, "extender")
    found = HostFacts(
        now=datetime.datetime.now(datetime.UTC),
        version=gpustack.__version__,
        config_path=str(where.agent_config),
        schedulers=schedulers or (),
        metrics=reader.take(facts.METRICS, extender) or (),
        tokens=_read_tokens(reader, where.extender_config),
    )
    if schedulers and not where.agent_config.exists():
        why = f"there is no {where.agent_config}: this is no GPU host"
        reader.absent[facts.GPU_HOST] = why
        return replace(found, unread=reader.unread, absent=reader.absent)
    found = _read_driver(reader, where, found)
    config = reader.take(facts.CONFIG, lambda: load_config(where.agent_config, "agent"))
    if config is None:
        reader.absent[facts.SETTINGS] = f"{where.agent_config} can't be read"
    else:
        found = _read_agent(reader, config, replace(found, config=config))
    return replace(found, unread=dict(reader.unread), absent=reader.absent)


def _read_tokens(reader: "_Reader", config: pathlib.Path) -> tuple[Credential, ...]:
    if not config.exists():
        reader.absent[facts.TOKENS] = f"there is no {config}: no extender runs here"
        return ()

    try:
        named = pathlib.Path(load_config(config, "extender")["kubeconfig"])
    except ConfigError:  # which the check of metrics says
        reader.absent[facts.TOKENS] = f"{config} can't be read"
        return ()
    return reader.take(facts.TOKENS, lambda: local_files.daemon_tokens(named)) or ()


def _read_driver(reader: "_Reader", where: HostLocations, found: HostFacts) -> HostFacts:
    answer = reader.take(facts.NVML, services.nvml) or {}
    mismatch = answer.get("mismatch", "")
    nvml = None
    if mismatch:
        reader.absent[facts.NVML] = "the library doesn't fit the loaded driver"
    elif answer:
        nvml = NvmlAnswer(
            driver=answer["driver"],
            minors=tuple(answer["minors"]),
            left_out=tuple(answer["left_out"]),
        )
    version = ""
    if nvml is not None:
        version = (
            reader.take(facts.MODULE_VERSION, lambda: local_files.module_version(where.modules))
            or ""
        )
    elif not mismatch:
        reader.absent[facts.MODULE_VERSION] = "NVML doesn't answer"
    minors = () if nvml is None else nvml.minors
    return replace(
        found,
        nvml=nvml,
        mismatch=mismatch,
        module_version=version,
        modules=reader.take(
            facts.MODULES, lambda: local_files.modules(where.modules, driver.MODULES)
        )
        or frozenset(),
        device_nodes=reader.take(
            facts.DEVICE_NODES, lambda: local_files.device_nodes(where.devices, minors)
        )
        or {},
    )


def _read_agent(reader: "_Reader", config: Mapping[str, Any], found: HostFacts) -> HostFacts:
    kubelet, http = pathlib.Path(config["kubelet_root"]), config["http"]
    take = reader.take
    if http["port"]:
        ready = functools.partial(services.unready, http["address"], http["port"])
        found = replace(found, unready=take(facts.READINESS, ready) or ())
    else:
        reader.absent[facts.READINESS] = "agent.yml lets the kernel choose the port (http.port: 0)"
    plugins = functools.partial(local_files.sockets, kubelet / "device-plugins")
    registry = functools.partial(local_files.registry_sockets, kubelet / "plugins_registry")
    hook = functools.partial(
        local_files.hook, pathlib.Path(config["state_dir"]), config["hook"]["version"]
    )
    mounts = functools.partial(local_files.mount_socket, config["mount_socket"])
    kubeconfig = functools.partial(local_files.credentials, pathlib.Path(config["kubeconfig"]))
    metrics = functools.partial(metrics_listener.of_section, "gpustack-agent", config["metrics"])
    found = replace(
        found,
        metrics=(*(take(facts.METRICS, metrics) or ()), *found.metrics),
        plugin_sockets=take(facts.PLUGINS, plugins) or frozenset(),
        registry_sockets=take(facts.REGISTRY, registry) or frozenset(),
        hook=take(facts.HOOK, hook) or "",
        mount_socket=take(facts.MOUNTS, mounts) or "",
        credentials=take(facts.KUBECONFIG, kubeconfig) or (),
    )
    # Here, so that hosts of the control plane, which have no gRPC, are checked as well.
    try:
        from gpustack.cli.doctor.host import grpc_services  # noqa: PLC0415
    except ImportError:
        text = "needs grpcio and protobuf: use /opt/gpustack/venv/bin/gpustack on a GPU host"
        reader.unread |= dict.fromkeys((facts.AGENT, facts.POD_RESOURCES, facts.RUNTIME), text)
        return found
    socket = pathlib.Path(config["run_dir"]) / "agent.sock"
    resources = kubelet / "pod-resources" / "kubelet.sock"
    take(facts.POD_RESOURCES, lambda: grpc_services.pod_resources(resources))
    runtime = functools.partial(grpc_services.runtime, config["cri_endpoint"], kubelet)
    return replace(
        found,
        agent_version=take(facts.AGENT, lambda: grpc_services.agent_version(socket)) or "",
        runtime=take(facts.RUNTIME, runtime) or "",
    )


class _Reader:
    """Reads one thing after the other, and notes what can't be read.

    Attributes:
        unread: why an input can't be read, by its name.
        absent: why an input isn't looked at, by its name.
    """

    def __init__(self) -> None:
        self.unread: dict[str, str] = {}
        self.absent: dict[str, str] = {}

    def take(self, name: str, question: Callable[[], _T]) -> _T | None:
        """Return an answer; None where there is none, which is noted.

        A question that the kernel doesn't let return is left behind.
        """
        answers: list[_T] = []
        thread = threading.Thread(target=self._ask, args=(name, question, answers), daemon=True)
        thread.start()
        thread.join(_SECONDS)
        if thread.is_alive():
            self.unread[name] = f"no answer in {_SECONDS:g} s"
        return answers[0] if answers else None

    def _ask(self, name: str, question: Callable[[], _T], answers: list[_T]) -> None:
        try:
            answers.append(question())
        except (GpustackError, OSError, ValueError) as error:
            self.unread[name] = "; ".join(str(error).splitlines())
