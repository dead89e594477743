"""Filters that merge the extender into what a scheduler already has.

Pure functions of parsed YAML. Each is a fixed point: applied to its own result it changes nothing,
which is what makes the role's second run quiet.
"""

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

CHECKSUM_ANNOTATION = "gpustack.io/scheduler-config-sha256"
VOLUME = "gpustack-scheduler-config"
CERTIFICATES_VOLUME = "gpustack-scheduler-certificates"
ALL_NODES = 100  # percent


def with_extender(
    found: Mapping[str, Any] | None,
    entries: Sequence[Mapping[str, Any]],
    *,
    api_version: str,
    kubeconfig: str,
) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration that calls our extender.

    Args:
        found: the configuration as it stands on the host, or None when there is no file.
        entries: our elements of `extenders`, the one that manages our resources first; they
            replace what stands there for us, from wherever it calls us now.
        api_version: for a configuration made from nothing.
        kubeconfig: for a configuration made from nothing.

    Raises:
        ValueError: the site has an extender that binds; kube-scheduler takes one at most.
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
    # Sampling could hide the only nodes that have GPUs from the extender; a profile's own number
    # goes before the common one.
    result["percentageOfNodesToScore"] = ALL_NODES
    for profile in result.get("profiles") or []:
        if "percentageOfNodesToScore" in profile:
            profile["percentageOfNodesToScore"] = ALL_NODES
    ours = {place(one) for one in ours_among(result.get("extenders") or [], entries)}
    others = [one for one in result.get("extenders") or [] if place(one) not in ours]
    binding = [one["urlPrefix"] for one in others if one.get("bindVerb")]
    if binding and any(entry.get("bindVerb") for entry in entries):
        raise ValueError(
            f"extenders: {binding[0]} has a bindVerb, and so has gpustack; kube-scheduler takes "
            "only one extender that binds. Remove that entry's bindVerb"
        )
    result["extenders"] = [*others, *(copy.deepcopy(dict(entry)) for entry in entries)]
    return result


def ours_among(
    extenders: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the elements that call our extender, by the resources that they manage or the place.

    Two extenders can't manage the same resource, so whoever manages ours is one of us: perhaps
    from before the address changed, perhaps the original.
    """
    managed = {name for entry in entries for name in _managed(entry)}
    places = {place(entry) for entry in entries}
    return [one for one in extenders if _managed(one) & managed or place(one) in places]


def place(one: Mapping[str, Any]) -> str:
    """Return where an element of `extenders` calls, whether by HTTP or HTTPS."""
    return str(one.get("urlPrefix", "")).partition("://")[2].rstrip("/")


def _managed(one: Mapping[str, Any]) -> set[str]:
    return {resource.get("name", "") for resource in one.get("managedResources") or []}


def has_ours(text: str, entries: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a configuration or a Policy, as text, calls our extender already."""
    found = yaml.safe_load(text) or {}
    return bool(ours_among(found.get("extenders") or [], entries))


def with_flags(
    manifest: Mapping[str, Any],
    flags: Sequence[str],
    path: str,
    content: str,
    certificates: str = "",
) -> dict[str, Any]:
    """Return a static pod's manifest whose scheduler reads the file at `path`.

    The kubelet restarts a static pod when its manifest changes, not when a mounted file does; so
    the file's checksum stands in an annotation.

    Args:
        manifest: the Pod as it stands on the host.
        flags: `--name=value`; each replaces a flag of the same name.
        path: the file, mounted read-only at the same path.
        content: what the file holds.
        certificates: the folder with the scheduler's certificate, mounted in the same way; empty
            without TLS.

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
    for name, mounted, kind in (
        (VOLUME, path, "File"),
        (CERTIFICATES_VOLUME, certificates, "Directory"),
    ):
        mount = {"name": name, "mountPath": mounted, "readOnly": True}
        volume = {"name": name, "hostPath": {"path": mounted, "type": kind}}
        container["volumeMounts"] = replaced(
            container.get("volumeMounts"), mount, keep=bool(mounted)
        )
        spec["volumes"] = replaced(spec.get("volumes"), volume, keep=bool(mounted))
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
    elements: Sequence[Mapping[str, Any]] | None, wanted: Mapping[str, Any], *, keep: bool
) -> list[Mapping[str, Any]]:
    """Return named elements with `wanted` as the last one, or without it."""
    others = [one for one in elements or [] if one.get("name") != wanted["name"]]
    return [*others, wanted] if keep else others


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {
            "kube_scheduler_with_extender": with_extender,
            "kube_scheduler_has_ours": has_ours,
            "kube_scheduler_with_flags": with_flags,
        }
