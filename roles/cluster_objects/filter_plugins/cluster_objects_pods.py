"""The filters that list the pods of a cluster that run, and that hold cards."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

_ENDED = ("Succeeded", "Failed")


def living(pods: Iterable[Mapping[str, Any]], domain: str = "") -> list[Mapping[str, Any]]:
    """Return the pods that haven't ended; with a domain, those of them that ask for cards.

    Args:
        pods: as the API server gives them.
        domain: of our resources.
    """
    return [
        pod
        for pod in pods
        if (pod.get("status") or {}).get("phase") not in _ENDED
        and (not domain or _asks(pod["spec"], f"{domain}/vcuda-core"))
    ]


def holders(pods: Iterable[Mapping[str, Any]], domain: str) -> list[str]:
    """Return the pods that are bound, haven't ended and ask for cards, as "NAMESPACE/NAME on NODE".

    Args:
        pods: as the API server gives them.
        domain: of our resources.
    """
    return sorted(
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']} on {pod['spec']['nodeName']}"
        for pod in living(pods, domain)
        if pod["spec"].get("nodeName")
    )


def _asks(spec: Mapping[str, Any], resource: str) -> bool:
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    limits = ((each.get("resources") or {}).get("limits") or {} for each in containers)
    return any(resource in each for each in limits)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {"cluster_objects_holders": holders, "cluster_objects_living": living}
