"""Filters that find other programs that give out the same cards.

Each returns findings, `{"name": ..., "text": ...}`; a site accepts one by its name, in which a
DaemonSet's has its own. They judge the output of a host's commands and lists of the API server,
and run no command themselves.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Finding = dict[str, str]

# The label that our role sets on a GPU host; it counts before the role has set it.
OUR_LABELS = {"nvidia-device-enable": "enable"}
# Of NVIDIA's resources those that are cards: whole, MIG instances, and those of virtual machines,
# which are named after the model. Its network cards have names of a site's choice, as hostdev.
CARDS = re.compile(r"nvidia\.com/(.*gpu|mig-|[A-Z])")
# What plugins for its network cards (of its network operator, for one) are called and listen on.
NETWORK_PLUGIN, NETWORK_SOCKET = "sriov", "nvidia.com_"
# Tables of containerd's CRI plugin by configuration version: 3 (containerd 2), 2 (1.3 on), 1.
CONTAINERD_PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
# In NVIDIA's container toolkit: whether an image's NVIDIA_VISIBLE_DEVICES is honoured (default:
# yes), and whether a volume's path below /var/run/nvidia-container-devices is (default: no).
BY_ENVIRONMENT = ("accept-nvidia-visible-devices-envvar-when-unprivileged", True)
BY_MOUNTS = ("accept-nvidia-visible-devices-as-volume-mounts", False)

# So many DeviceClasses with our names are told: of two with one name the newer serves it, so a
# cluster has one or two.
NAMED = 8

TEXTS = {
    "nvidia-device-plugin": (
        "{what}. It gives out the same cards whole, without a word to gpustack: take NVIDIA's"
        " device plugin off these nodes"
    ),
    "nvidia-gpu-operator": (
        "{what}. It changes driver, container runtime and device plugin of these nodes: label them"
        " nvidia.com/gpu.deploy.operands=false, or remove it"
    ),
    "nvidia-dra-driver": (
        "{what}. It gives out the same cards by resource claims: take NVIDIA's DRA driver off"
        " these nodes"
    ),
    "gpu-manager": (
        "{what}. It and gpustack's agent would take the same sockets and cards: keep it off the"
        " hosts of the group gpu_nodes, by a node selector of its own, or remove it"
    ),
    "gpu-manager-account": (
        "{what}, which cluster_objects_trusted_accounts doesn't name. The policy gpustack-decisions"
        " would refuse what it writes on the pods of its nodes, where no container with cards would"
        " start any more: name it there while gpu-manager runs"
    ),
    "nvidia-default-runtime": (
        "{what}. Any image may then open every card by NVIDIA_VISIBLE_DEVICES=all: make runc the"
        " default, or set {environment} = false and {mounts} = false in"
        " /etc/nvidia-container-runtime/config.toml"
    ),
    "nvidia-runtime-class": (
        "{what}. A pod that names it may open every card by NVIDIA_VISIBLE_DEVICES=all: remove the"
        " RuntimeClass, or set {environment} = false and {mounts} = false in"
        " /etc/nvidia-container-runtime/config.toml of each GPU host and accept this finding"
    ),
    "dra-extended-resource": (
        "{what}. For a node that offers none of it kube-scheduler asks for devices of that class"
        " instead: gpustack's agent is never called there, and pods of more than 32 units fail to"
        " schedule. Give the class another spec.extendedResourceName, or none"
    ),
    "unknown-runtime": (
        "{what}. Whether containers get NVIDIA's runtime by default can't be told: see to it that"
        " the command answers here"
    ),
}


def finding(kind: str, what: str, place: str = "") -> Finding:
    """Return a finding: `what` names the program, `place` is a DaemonSet's NAMESPACE/NAME."""
    text = TEXTS[kind].format(what=what, environment=BY_ENVIRONMENT[0], mounts=BY_MOUNTS[0])
    return {"name": f"{kind}/{place}" if place else kind, "text": text}


def socket_findings(paths: Iterable[str], *, our_agent: bool) -> list[Finding]:
    """Return the findings of sockets in the kubelet's folders.

    Args:
        paths: of sockets in `device-plugins` and `plugins_registry`.
        our_agent: whether our agent is installed, whose sockets have the original's names.
    """
    found = []
    left = " (if what made it is gone, remove the socket)"
    for path in sorted(paths):
        name = path.rpartition("/")[2]
        if name.startswith("nvidia") and not name.startswith(NETWORK_SOCKET):
            found.append(finding("nvidia-device-plugin", f"{path} is there{left}"))
        elif name.startswith("gpu.nvidia.com"):
            found.append(finding("nvidia-dra-driver", f"{path} is there{left}"))
        elif name == "vcore.sock" and not our_agent:
            found.append(finding("gpu-manager", f"{path} is there, and our agent isn't{left}"))
    return found


def runtime_findings(
    command: Mapping[str, Any], program: str, toolkit: Sequence[str]
) -> list[Finding]:
    """Return the findings of the container runtime's configuration.

    Args:
        command: the result of `containerd config dump`, `crio config` or `docker info`.
        program: `containerd`, `crio` or `docker`.
        toolkit: texts of the NVIDIA container toolkit's configuration; its defaults where none.
    """
    said = " ".join(map(str, command.get("cmd") or [program]))
    try:
        if command.get("rc", 1) != 0:
            raise ValueError(command.get("stderr") or command.get("msg") or "no answer")
        runtime, path = _DEFAULTS[program](command["stdout"])
    except (ValueError, AttributeError, TypeError) as error:
        return [finding("unknown-runtime", f"`{said}` fails here: {error}")]
    if "nvidia" not in f"{runtime} {path}" or not _honours(toolkit):
        return []
    binary = f" ({path})" if path else ""
    return [finding("nvidia-default-runtime", f"{program}'s default runtime is {runtime}{binary}")]


def _containerd(text: str) -> tuple[str, str]:
    plugins = tomllib.loads(text).get("plugins") or {}
    for name in CONTAINERD_PLUGINS:
        containerd = (plugins.get(name) or {}).get("containerd")
        if containerd is not None:
            runtime = containerd.get("default_runtime_name") or ""
            entry = (containerd.get("runtimes") or {}).get(runtime) or {}
            # before default_runtime_name: a runtime without a name
            old = containerd.get("default_runtime") or {}
            return runtime, _binary(entry) or _binary(old)
    return "", ""


def _binary(entry: Mapping[str, Any]) -> str:
    return str((entry.get("options") or {}).get("BinaryName") or entry.get("runtime_path") or "")


def _crio(text: str) -> tuple[str, str]:
    # Its output has default values as comments.
    runtime = (tomllib.loads(text).get("crio") or {}).get("runtime") or {}
    name = runtime.get("default_runtime") or ""
    return name, str(((runtime.get("runtimes") or {}).get(name) or {}).get("runtime_path") or "")


def _docker(text: str) -> tuple[str, str]:
    document = json.loads(text)
    name = document.get("DefaultRuntime") or ""
    return name, str(((document.get("Runtimes") or {}).get(name) or {}).get("path") or "")


_DEFAULTS: dict[str, Callable[[str], tuple[str, str]]] = {
    "containerd": _containerd,
    "crio": _crio,
    "docker": _docker,
}


def _honours(toolkit: Sequence[str]) -> bool:
    try:
        settings = [tomllib.loads(text) for text in toolkit] or [{}]
    except tomllib.TOMLDecodeError:  # an unreadable file forbids nothing
        return True
    return any(each.get(*way) for each in settings for way in (BY_ENVIRONMENT, BY_MOUNTS))


def cluster_findings(
    lists: Mapping[str, Sequence[Mapping[str, Any]]],
    gpu_nodes: Sequence[str],
    resources: Sequence[str],
    trusted: Sequence[str] = (),
) -> list[Finding]:
    """Return the findings of the cluster's objects.

    Args:
        lists: `nodes`, `daemonsets`, `runtimeclasses` and `deviceclasses`, as the API server gives
            them, and `policies`, the names of those that we lay there.
        gpu_nodes: names of our nodes.
        resources: names of our resources.
        trusted: accounts of others that may write decisions.
    """
    nodes = [node for node in lists["nodes"] if node["metadata"]["name"] in gpu_nodes]
    found = [
        finding("nvidia-device-plugin", f"node {node['metadata']['name']} offers {number} {name}")
        for node in nodes
        for name, number in (node["status"].get("allocatable") or {}).items()
        if CARDS.match(name) and str(number) != "0"
    ]
    for each in lists["daemonsets"]:
        kind = _kind(each)
        where = f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        if kind and any(_selects(each, node["metadata"]) for node in nodes):
            found.append(finding(kind, f"DaemonSet {where} runs on our GPU hosts", where))
        elif (
            kind == "gpu-manager"
            and lists.get("policies")
            and _account(each) not in trusted
            # A tenant's own DaemonSet may have any name: its account is none to trust.
            and each["metadata"]["namespace"] == "kube-system"
        ):
            what = f"DaemonSet {where} runs as {_account(each)}"
            found.append(finding("gpu-manager-account", what))
    for each in lists["runtimeclasses"]:
        if "nvidia" in each["handler"]:
            what = f"RuntimeClass {each['metadata']['name']} has the handler {each['handler']}"
            found.append(finding("nvidia-runtime-class", what))
    same = [each for each in lists["deviceclasses"] if _extended_resource(each) in resources]
    for each in same[:NAMED]:
        what = f"DeviceClass {each['metadata']['name']} serves {_extended_resource(each)}"
        found.append(finding("dra-extended-resource", what))
    return found


def _account(daemonset: Mapping[str, Any]) -> str:
    name = daemonset["spec"]["template"]["spec"].get("serviceAccountName") or "default"
    return f"system:serviceaccount:{daemonset['metadata']['namespace']}:{name}"


def _extended_resource(deviceclass: Mapping[str, Any]) -> Any:
    return (deviceclass.get("spec") or {}).get("extendedResourceName")


def _selects(daemonset: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Say whether a DaemonSet's node selector and required node affinity let it on a node."""
    labels = {**(node.get("labels") or {}), **OUR_LABELS}
    spec = daemonset["spec"]["template"]["spec"]
    wanted = spec.get("nodeSelector") or {}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = affinity["nodeSelectorTerms"] if affinity else [{}]
    fields = {"metadata.name": node["name"]}
    return all(labels.get(key) == value for key, value in wanted.items()) and any(
        all(_fits(one, labels) for one in term.get("matchExpressions") or [])
        and all(_fits(one, fields) for one in term.get("matchFields") or [])
        for term in terms
    )


def _fits(wanted: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Match an expression of a node affinity; one that isn't evaluated (Gt, Lt) may fit."""
    there = wanted["key"] in labels
    named = labels.get(wanted["key"]) in (wanted.get("values") or [])
    says = {"Exists": there, "DoesNotExist": not there, "In": named, "NotIn": not named}
    return says.get(wanted["operator"], True)


def _kind(daemonset: Mapping[str, Any]) -> str:
    """Return the kind of finding that a DaemonSet is, empty for one of no concern."""
    name = daemonset["metadata"]["name"]
    template = daemonset["spec"]["template"]
    # without tag and digest; a registry may have a port
    images = [
        each["image"].partition("@")[0].rpartition("/")[0::2]
        for each in template["spec"]["containers"]
    ]
    bases = {base.partition(":")[0] for _, base in images}
    labels = (template.get("metadata") or {}).get("labels") or {}
    # its neighbour by name, nvidia-vgpu-manager-daemonset, is another program
    if name == "gpu-manager-daemonset" or "gpu-manager" in bases:
        return "gpu-manager"
    if "nvidia-dra-driver" in name or "k8s-dra-driver-gpu" in bases:
        return "nvidia-dra-driver"
    if labels.get("app.kubernetes.io/managed-by") == "gpu-operator" or name.startswith(
        ("nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset")
    ):
        return "nvidia-gpu-operator"
    words = [name, *labels.values(), *(f"{path}/{base}" for path, base in images)]
    plugins = [word for word in words if "nvidia" in word and "device-plugin" in word]
    if any(NETWORK_PLUGIN not in word.rpartition("/")[2] for word in plugins):
        return "nvidia-device-plugin"
    return ""


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {
            "preflight_sockets": socket_findings,
            "preflight_runtime": runtime_findings,
            "preflight_cluster": cluster_findings,
        }
