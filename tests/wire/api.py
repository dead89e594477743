"""Objects of the API as its JSON gives them."""

from typing import Any

from gpustack.wire.keys import Keys

KEYS = Keys()


def container(cores: object = None, memory: object = None, **fields: Any) -> dict[str, Any]:
    """Return a container with these limits; None leaves one out."""
    amounts = {KEYS.vcuda_core: cores, KEYS.vcuda_memory: memory, "cpu": "1"}
    limits = {name: amount for name, amount in amounts.items() if amount is not None}
    return {"name": "c", "resources": {"limits": limits}, **fields}


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    annotations: dict[str, str] | None = None,
    node: str = "",
    phase: str = "Pending",
    name: str = "p",
) -> dict[str, Any]:
    """Return a pod; its UID is derived from its name."""
    spec: dict[str, Any] = {"containers": list(containers)}
    if init:
        spec["initContainers"] = list(init)
    if node:
        spec["nodeName"] = node
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "annotations": annotations or {},
        },
        "spec": spec,
        "status": {"phase": phase},
    }
