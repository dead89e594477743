"""The pods of these tests: a share and a whole card, and what their decisions say."""

from typing import Any

from gpustack.wire.keys import Keys

NODE = "gpu1"
KEYS = Keys()
CORE, MEMORY = KEYS.vcuda_core, KEYS.vcuda_memory
SHARE_CORES, SHARE_UNITS = 50, 8  # 2 GiB
Pod = dict[str, Any]


def share(name: str) -> Pod:
    """Return a pod that asks for half a card's compute and 2 GiB."""
    return pod_of(name, SHARE_CORES, SHARE_UNITS)


def pod_of(name: str, cores: int, units: int) -> Pod:
    """Return a pod that asks for so much of a card."""
    return _pod(name, {CORE: str(cores), MEMORY: str(units)})


def whole_card(name: str) -> Pod:
    """Return a pod that asks for a card."""
    return _pod(name, {CORE: "100"})


def uid_of(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def minor_of(pod: Pod) -> int:
    """Return the card that a bound pod's decision names."""
    return int(pod["metadata"]["annotations"][f"{KEYS.idx_prefix}0"])


def _pod(name: str, limits: dict[str, str]) -> Pod:
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {}},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }
