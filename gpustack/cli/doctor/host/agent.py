"""The agent, and what it stands between: the kubelet, the container runtime, hook and mounts."""

from collections.abc import Iterator
from typing import Final

from gpustack.cli.doctor.check import Found, Severity, judged, ok
from gpustack.cli.doctor.host.facts import HostFacts

_KUBELET_SOCKET: Final = "kubelet.sock"
_PLUGINS: Final = ("vcore", "vmemory")  # `vcore.sock`, or `vcore-2.sock` after it
# NVIDIA's device plugin names its socket so; its network operator's begin with `nvidia.com_` (the
# same rule as in roles/preflight/filter_plugins/preflight_gpu_software.py).
_OTHER: Final = "nvidia"
_NETWORK: Final = "nvidia.com_"
_DRA: Final = "gpu.nvidia.com"
_SHOWN: Final = 8  # reasons of an agent that one run of checks names


def config(facts: HostFacts) -> list[Found]:
    """Say that the configuration can be read: where it can't, the input is missing."""
    return ok(f"{facts.config_path} is valid")


def version(facts: HostFacts) -> list[Found]:
    """Say whether the agent that runs is of this command's version."""
    if facts.agent_version == facts.version:
        return ok(f"gpustack-agent {facts.agent_version} answers")
    text = f"gpustack-agent {facts.agent_version} runs, and this command is {facts.version}"
    return [Found(level=Severity.WARN, text=text)]


def ready(facts: HostFacts) -> list[Found]:
    """Say what keeps the agent from taking work."""
    problems = (Found(level=Severity.FAIL, text=each) for each in facts.unready[:_SHOWN])
    return judged(problems, "the agent is ready")


def plugins(facts: HostFacts) -> list[Found]:
    """Say whether the kubelet's socket and those of both device plugins are there."""
    return judged(
        _missing(facts.plugin_sockets), "the kubelet's socket and both plugins' are there"
    )


def _missing(names: frozenset[str]) -> Iterator[Found]:
    if _KUBELET_SOCKET not in names:
        text = f"has no socket {_KUBELET_SOCKET}: the kubelet takes no device plugin"
        mend = "systemctl status kubelet; journalctl --unit=kubelet"
        yield Found(level=Severity.FAIL, subject="device-plugins", text=text, mend=mend)
    for plugin in _PLUGINS:
        if not any(_is_plugins(name, plugin) for name in names):
            text = f"has no socket {plugin}.sock: the agent's plugin is not served"
            yield Found(level=Severity.FAIL, subject="device-plugins", text=text)


def _is_plugins(name: str, plugin: str) -> bool:
    return name == f"{plugin}.sock" or (name.startswith(f"{plugin}-") and name.endswith(".sock"))


def other_plugins(facts: HostFacts) -> list[Found]:
    """Say which sockets are those of another plugin that gives out cards."""
    names = {
        *(
            name
            for name in facts.plugin_sockets
            if name.startswith(_OTHER) and not name.startswith(_NETWORK)
        ),
        *(name for name in facts.registry_sockets if name.startswith(_DRA)),
    }
    problems = (
        Found(
            level=Severity.FAIL,
            subject=f"socket {name}",
            text="is another plugin's; if what made it is gone, remove the socket",
        )
        for name in sorted(names)
    )
    return judged(problems, "no other plugin gives out cards")


def pod_resources(_: HostFacts) -> list[Found]:
    """Say that PodResources answers: where it doesn't, the input is missing."""
    return ok("the kubelet's PodResources answers")


def runtime(facts: HostFacts) -> list[Found]:
    """Say which container runtime answers."""
    return ok(f"{facts.runtime} answers")


def hook(facts: HostFacts) -> list[Found]:
    """Say which build of the hook is there, with the bytes that its name says."""
    return ok(f"{facts.hook} is there, and its files are its own")


def mounts(facts: HostFacts) -> list[Found]:
    """Say whether the socket of gpustack-mount is there."""
    if not facts.mount_socket:
        return ok("agent.yml says that shares get no tmpfs of their own (mount_socket)")
    return ok(f"{facts.mount_socket} is there")
