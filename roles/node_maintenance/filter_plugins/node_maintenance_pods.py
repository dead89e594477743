"""The filter that says of a node's pods which a drain evicts."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

# A kubelet owns the mirrors of its static pods by its Node (since Kubernetes 1.17): neither can be
# evicted. A DaemonSet would put its pod back at once, on a cordoned node, too.
_STAY = (("apps/v1", "DaemonSet"), ("v1", "Node"))
# A user may write any owner into a pod. Only with a node's name, which our policies refuse him, may
# he write this annotation; and the collector of garbage ends a pod whose DaemonSet isn't there.
_MIRROR = "kubernetes.io/config.mirror"


def chosen(pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the pods that have to leave their node, by name.

    Args:
        pods: of a node, as the API server gives them; those that have ended are left out.

    Returns:
        `name` (NAMESPACE/NAME) and `uid` of each, whether a controller makes it anew (`owned`),
        and whether it is being deleted (`ending`).
    """
    found = []
    for pod in pods:
        meta = pod["metadata"]
        owners = [one for one in meta.get("ownerReferences") or () if one.get("controller")]
        if not any(_stays(one, meta.get("annotations") or {}) for one in owners):
            found.append(
                {
                    "name": f"{meta['namespace']}/{meta['name']}",
                    "uid": meta["uid"],
                    "owned": bool(owners),
                    "ending": meta.get("deletionTimestamp") is not None,
                }
            )
    return sorted(found, key=lambda pod: pod["name"])


def _stays(owner: Mapping[str, Any], annotations: Mapping[str, Any]) -> bool:
    kind = (owner.get("apiVersion"), owner.get("kind"))
    return kind in _STAY and (kind[1] != "Node" or _MIRROR in annotations)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {"node_maintenance_pods": chosen}
