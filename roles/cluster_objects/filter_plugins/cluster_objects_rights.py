"""Filters for the upgrade of a site with an extender that changes pods instead of their status."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

PATCHES_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}


def patches_pods(found: Iterable[Mapping[str, Any]]) -> bool:
    """Say whether a ClusterRole lets the extender change pods; `found` is none or one."""
    return any(
        "pods" in rule.get("resources", ()) and "patch" in rule["verbs"]
        for role in found
        for rule in role.get("rules") or ()
    )


def rights(objects: Iterable[Mapping[str, Any]], older_extender: bool) -> list[dict[str, Any]]:
    """Return the objects of rbac.yml.j2, with an older extender's right where there is one."""
    more = [PATCHES_PODS] if older_extender else []
    return [
        {**each, "rules": [*each["rules"], *more]} if each["kind"] == "ClusterRole" else {**each}
        for each in objects
        if each
    ]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {
            "cluster_objects_patches_pods": patches_pods,
            "cluster_objects_rights": rights,
        }
