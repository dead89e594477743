"""Filters that merge the extender into a scheduler's configuration.

Pure functions of parsed YAML. Each is a fixed point: applied to its own result it changes nothing,
which is what makes the role's second run quiet.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

ALL_NODES = 100  # percent
# Flags that kube-scheduler ignores beside --config, and the fields that say the same
# (https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/).
CLIENT_FLAGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--kube-api-burst": ("burst", int),
    "--kube-api-content-type": ("contentType", str),
    "--kube-api-qps": ("qps", float),
}
# Both are on where nothing is said.
PROFILING_FLAGS = {
    "--profiling": "enableProfiling",
    "--contention-profiling": "enableContentionProfiling",
}
# PyYAML's own, where a value is none of its kind: a date of the 13th month, `!!bool maybe`.
NOT_YAML = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
# What kube-scheduler looks at where a Policy names no predicates, but for those that it always
# looks at (pkg/scheduler/framework/plugins/legacy_registry.go of 1.18 to 1.22).
DEFAULT_PREDICATES = (
    "CheckVolumeBinding",
    "EvenPodsSpread",
    "GeneralPredicates",
    "MatchInterPodAffinity",
    "MaxCSIVolumeCountPred",
    "NoDiskConflict",
    "NoVolumeZoneConflict",
)
ALWAYS = ("CheckNodeUnschedulable", "PodToleratesNodeTaints")
GENERAL = {"PodFitsResources", "HostName", "PodFitsHostPorts", "MatchNodeSelector"}
FALSE = ("0", "f", "F", "false", "FALSE", "False")  # to Go's strconv.ParseBool


def copied(value: Any) -> Any:
    """Return a copy of parsed YAML.

    copy.deepcopy copies Ansible's templar, with all variables, for each container in it.
    """
    if isinstance(value, Mapping):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def parsed(text: str, path: str) -> dict[str, Any] | None:
    """Return a configuration file's document, None for an empty one.

    Raises:
        ValueError: it is no YAML, or no mapping; the message names the file.
    """
    try:
        found = yaml.safe_load(text)
    except (*NOT_YAML, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}: mend this file") from error
    if found is None or isinstance(found, dict):
        return found
    raise ValueError(f"{path}: is no KubeSchedulerConfiguration: mend this file")


def with_extender(
    found: Mapping[str, Any] | None,
    entries: Sequence[Mapping[str, Any]],
    *,
    api_version: str,
    kubeconfig: str,
    flags: Mapping[str, str] | None = None,
    made_here: bool = False,
) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration that calls our extender.

    Args:
        found: the configuration as it stands on the host, or None when there is no file.
        entries: our elements of `extenders`, the one that manages our resources first; they
            replace our present elements, at whatever address those call us.
        api_version: for a configuration made from nothing; empty where it isn't known.
        kubeconfig: for a configuration made from nothing.
        flags: values of the scheduler's flags, empty ones too; one made from nothing says the same.
        made_here: `found` was made from nothing too; it follows the scheduler's version.

    Raises:
        ValueError: the site has an extender that binds (kube-scheduler takes one at most), or a
            configuration has to be made and `api_version` is empty.
    """
    if not found and not api_version:
        raise ValueError(
            "apiVersion: the scheduler's version isn't known: set kube_scheduler_api_version"
        )
    result: dict[str, Any] = (
        copied(found)
        if found
        else {
            "apiVersion": api_version,
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig},
            "leaderElection": {"leaderElect": True},
        }
    )
    if made_here and api_version:
        result["apiVersion"] = api_version
    if made_here or not found:
        _take_over(result, flags or {})
    # Sampling could hide the only nodes that have GPUs from the extender; a profile's own number
    # goes before the common one.
    result["percentageOfNodesToScore"] = ALL_NODES
    for profile in result.get("profiles") or []:
        if "percentageOfNodesToScore" in profile:
            profile["percentageOfNodesToScore"] = ALL_NODES
    others = others_among(result.get("extenders") or [], entries)
    binding = [one["urlPrefix"] for one in others if one.get("bindVerb")]
    if binding and any(entry.get("bindVerb") for entry in entries):
        raise ValueError(
            f"extenders: {binding[0]} has a bindVerb, and so has gpustack; kube-scheduler takes "
            "only one extender that binds. Remove that entry's bindVerb"
        )
    result["extenders"] = [*others, *map(copied, entries)]
    return result


def _take_over(made: dict[str, Any], flags: Mapping[str, str]) -> None:
    """Say what the scheduler's flags say, where the configuration says nothing of it yet."""
    client = made.setdefault("clientConnection", {})
    for name, (field, convert) in CLIENT_FLAGS.items():
        if flags.get(name):
            client.setdefault(field, convert(flags[name]))
    for name, field in PROFILING_FLAGS.items():
        if flags.get(name) in FALSE:
            made.setdefault(field, False)


def ours_among(
    extenders: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the elements that call our extender, by the resources that they manage or the place.

    Two extenders can't manage the same resource, so an element that manages ours is one of us:
    perhaps from before the address changed, perhaps the original.
    """
    managed = {name for entry in entries for name in _managed(entry)}
    places = {place(entry) for entry in entries}
    return [one for one in extenders if _managed(one) & managed or place(one) in places]


def others_among(
    extenders: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the elements that call another extender, at any address but ours."""
    ours = {place(one) for one in ours_among(extenders, entries)}
    return [one for one in extenders if place(one) not in ours]


def place(one: Mapping[str, Any]) -> str:
    """Return the address that an element of `extenders` calls, whether by HTTP or HTTPS."""
    return str(one.get("urlPrefix", "")).partition("://")[2].rstrip("/")


def places_of(extenders: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the address that each element of `extenders` calls."""
    return [place(one) for one in extenders]


def _managed(one: Mapping[str, Any]) -> set[str]:
    return {resource.get("name", "") for resource in one.get("managedResources") or []}


def has_ours(
    text: str, entries: Sequence[Mapping[str, Any]], policy: Mapping[str, Any] | None = None
) -> bool:
    """Say whether a configuration or a Policy, as text, has what we write.

    One that calls the original, which may listen where we do, is the site's own.

    Args:
        text: the file.
        entries: our elements of `extenders`.
        policy: the whole Policy that we write.
    """
    found = yaml.safe_load(text) or {}
    ours = ours_among(found.get("extenders") or [], entries)
    if found.get("kind") == "Policy" and policy is not None:
        return bool(ours) and {**found, "extenders": policy["extenders"]} == policy
    return any(map(_binds, ours))


def lost(text: str, entries: Sequence[Mapping[str, Any]], policy: Mapping[str, Any]) -> list[str]:
    """Return what a scheduler looks at, or asks, that it won't with the Policy that we write.

    Args:
        text: the Policy as it stands; empty where there is none.
        entries: our elements of `extenders`.
        policy: the whole Policy that we write.
    """
    found = yaml.safe_load(text) or {}
    if has_ours(text, entries, policy):
        return []
    kept = {one["name"] for one in policy["predicates"]} | set(ALWAYS)
    kept |= {"GeneralPredicates"} if kept >= GENERAL else set()
    before = found.get("predicates")
    named = DEFAULT_PREDICATES if before is None else [one["name"] for one in before]
    others = others_among(found.get("extenders") or [], entries)
    return [*(name for name in named if name not in kept), *(one["urlPrefix"] for one in others)]


def originals(text: str, entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return where a configuration calls the original; nowhere, where it calls us instead."""
    ours = ours_among((yaml.safe_load(text) or {}).get("extenders") or [], entries)
    return [] if any(map(_binds, ours)) else [one["urlPrefix"] for one in ours]


def _binds(one: Mapping[str, Any]) -> bool:
    """Say whether an element is called to bind, as ours always is; the original never is."""
    return bool(one.get("bindVerb"))


def without_extender(
    found: Mapping[str, Any], kept: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a configuration without the fields of `with_extender`; other changes stay.

    Args:
        found: the configuration as it stands on the host.
        kept: the same as it stood before us.
        entries: our elements of `extenders`.
    """
    result: dict[str, Any] = copied(found)
    extenders = result.get("extenders") or []
    others = others_among(extenders, entries)
    if len(others) == len(extenders):
        return result
    result["extenders"] = _put_back(others, kept.get("extenders") or [], entries)
    if not result["extenders"] and "extenders" not in kept:
        del result["extenders"]
    _restore_sampling(result, kept)
    before = {one.get("schedulerName"): one for one in kept.get("profiles") or []}
    for profile in result.get("profiles") or []:
        _restore_sampling(profile, before.get(profile.get("schedulerName"), {}))
    return result


def _put_back(
    others: list[Mapping[str, Any]],
    kept: Sequence[Mapping[str, Any]],
    entries: Sequence[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    """Return elements with those that ours have replaced: the original's, at another address.

    Where ours was asked, nobody answers when it is gone, and an element there stops the scheduler.
    """
    places = {place(one) for one in entries}
    replaced = [
        one for one in ours_among(kept, entries) if not _binds(one) and place(one) not in places
    ]
    before = others_among(kept, entries)
    if others == before:  # in their old order
        return [copied(one) for one in kept if one in before or one in replaced]
    return [*others, *copied(replaced)]


def _restore_sampling(found: dict[str, Any], kept: Mapping[str, Any]) -> None:
    """Give a configuration or a profile its own number back, unless the site has set another."""
    if found.get("percentageOfNodesToScore") != ALL_NODES:
        return
    if "percentageOfNodesToScore" in kept:
        found["percentageOfNodesToScore"] = kept["percentageOfNodesToScore"]
    else:
        del found["percentageOfNodesToScore"]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {
            "kube_scheduler_parsed": parsed,
            "kube_scheduler_with_extender": with_extender,
            "kube_scheduler_has_ours": has_ours,
            "kube_scheduler_lost": lost,
            "kube_scheduler_originals": originals,
            "kube_scheduler_places": places_of,
            "kube_scheduler_without_extender": without_extender,
        }
