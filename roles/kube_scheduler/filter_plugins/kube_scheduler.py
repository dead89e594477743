"""Filters that merge the extender into what a scheduler already has.

Pure functions of parsed YAML. Each is a fixed point: applied to its own result it changes nothing,
which is what makes the role's second run quiet.
"""

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

CHECKSUM_ANNOTATION = "gpustack.io/scheduler-config-sha256"
VOLUME = "gpustack-scheduler-config"


def with_extender(
    found: Mapping[str, Any] | None,
    entry: Mapping[str, Any],
    *,
    api_version: str,
    kubeconfig: str,
) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration that calls our extender.

    Args:
        found: the configuration as it stands on the host, or None when there is no file.
        entry: our element of `extenders`; one with the same urlPrefix is replaced.
        api_version: for a configuration made from nothing.
        kubeconfig: for a configuration made from nothing.
    """
    result: dict[str, Any] = (
        copy.deepcopy(dict(found))
        if found
        else {
            "apiVersion": api_version,
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig},
            "leaderElection": {"leaderElect": True},
        }
    )
    # Sampling could hide the only nodes that have GPUs from the extender.
    result["percentageOfNodesToScore"] = 100
    others = [one for one in result.get("extenders") or [] if not is_ours(one, entry)]
    result["extenders"] = [*others, copy.deepcopy(dict(entry))]
    return result


def is_ours(one: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Tell whether an element of `extenders` points at our extender."""
    return bool(one.get("urlPrefix") == entry["urlPrefix"])


def with_flags(
    manifest: Mapping[str, Any], flags: Sequence[str], path: str, content: str
) -> dict[str, Any]:
    """Return a static pod's manifest whose scheduler reads the file at `path`.

    The kubelet restarts a static pod when its manifest changes, not when a mounted file does; so
    the file's checksum stands in an annotation.

    Args:
        manifest: the Pod as it stands on the host.
        flags: `--name=value`; each replaces a flag of the same name.
        path: the file, mounted read-only at the same path.
        content: what the file holds.

    Raises:
        ValueError: the manifest has no container that runs kube-scheduler.
    """
    result: dict[str, Any] = copy.deepcopy(dict(manifest))
    annotations = result.setdefault("metadata", {}).setdefault("annotations", {})
    annotations[CHECKSUM_ANNOTATION] = hashlib.sha256(content.encode()).hexdigest()
    spec = result["spec"]
    container = scheduler_container(spec)
    names = {flag.partition("=")[0] for flag in flags}
    kept = [word for word in container["command"] if word.partition("=")[0] not in names]
    container["command"] = [*kept, *flags]
    container["volumeMounts"] = replaced(
        container.get("volumeMounts"), {"name": VOLUME, "mountPath": path, "readOnly": True}
    )
    spec["volumes"] = replaced(
        spec.get("volumes"), {"name": VOLUME, "hostPath": {"path": path, "type": "File"}}
    )
    return result


def scheduler_container(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container whose command is kube-scheduler."""
    for container in spec.get("containers") or []:
        command = container.get("command") or [""]
        if command[0].rpartition("/")[2] == "kube-scheduler":
            found: dict[str, Any] = container
            return found
    raise ValueError("spec.containers: none has kube-scheduler as command[0]")


def replaced(
    elements: Sequence[Mapping[str, Any]] | None, wanted: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return named elements with `wanted` as the last one."""
    return [*(one for one in elements or [] if one.get("name") != wanted["name"]), wanted]


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        """Return the filters by the names that templates use."""
        return {
            "kube_scheduler_with_extender": with_extender,
            "kube_scheduler_with_flags": with_flags,
        }
