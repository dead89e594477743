"""A filter that says why a GPU host has no CDI for gpustack_agent_cdi.

As gpustack/agent/cdi/support.py and gpustack/adapters/cri/cdi.py, which name the sources of the
versions; the agent asks kubelet and runtime themselves, so what isn't known here passes.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

KUBELET = (1, 29)
RUNTIMES = {"containerd": (1, 7, 2), "cri-o": (1, 28, 0)}
DEFAULT_FOLDERS = ["/etc/cdi", "/var/run/cdi"]
# Tables of containerd's CRI plugin by configuration version: 3 (containerd 2) and 2.
PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")


def cdi_problems(node: Mapping[str, Any], command: Mapping[str, Any], folder: str) -> list[str]:
    """Return what keeps a host from CDI, a line each.

    Args:
        node: the Node object; empty where the cluster wasn't read.
        command: the result of the command that prints the runtime's configuration.
        folder: where the spec lies.
    """
    info = (node.get("status") or {}).get("nodeInfo") or {}
    kubelet = info.get("kubeletVersion") or ""
    found = []
    if _is_before(kubelet, KUBELET):
        found.append(f"its kubelet is {kubelet}, and passes CDI devices on since 1.29; upgrade it")
    name, _, version = (info.get("containerRuntimeVersion") or "").partition("://")
    oldest = RUNTIMES.get(name)
    if name and oldest is None:
        found.append(f"its runtime {name} isn't known to take CDI devices")
    elif oldest and _is_before(version, oldest):
        since = ".".join(map(str, oldest))
        found.append(
            f"its {name} {version} takes no CDI devices from the kubelet; upgrade to {since}"
        )
    else:
        found += _in_configuration(command, folder)
    return found


def _in_configuration(command: Mapping[str, Any], folder: str) -> list[str]:
    """Judge the output of `containerd config dump` or `crio config`."""
    try:
        printed = tomllib.loads(command.get("stdout") or "")
    except tomllib.TOMLDecodeError:
        return []
    plugins = printed.get("plugins") or {}
    crio = (printed.get("crio") or {}).get("runtime") or {}
    for table in filter(None, (crio, *map(plugins.get, PLUGINS))):
        # CRI-O prints default values as comments
        folders = table.get("cdi_spec_dirs", DEFAULT_FOLDERS if table is crio else None)
        if folders is None or table.get("enable_cdi", True) is not True:
            return ["its containerd has CDI off; set enable_cdi = true in config.toml, restart it"]
        if _run(folder) not in map(_run, folders):
            return [f"its runtime reads no CDI specs in {folder}; add it to cdi_spec_dirs"]
    return []


def _run(path: str) -> str:
    """Return a path by one of its two names: /var/run is a link."""
    return re.sub(r"^/var/run/", "/run/", path.rstrip("/"))


def _is_before(version: str, oldest: tuple[int, ...]) -> bool:
    numbers = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return bool(numbers) and tuple(int(each or 0) for each in numbers.groups()) < oldest


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by the name that templates use."""
        return {"preflight_cdi": cdi_problems}
