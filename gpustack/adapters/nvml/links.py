"""How pairs of cards are joined: NVLinks counted one by one, else the PCIe path.

Tokens are those of `nvidia-smi topo -m` (`gpustack.model.topology.link_level`).
"""

from collections.abc import Sequence
from typing import Any

import pynvml

from gpustack.model.topology.link_level import FARTHEST_TOKEN, SELF_TOKEN, Links

_TOKENS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",  # two GPUs of one board: as near as one switch
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: FARTHEST_TOKEN,
}


_UNKNOWN = ""  # the far end of an NVLink that the driver can't name


def read(handles: Sequence[Any], bus_ids: Sequence[str]) -> Links:
    """Return the tokens of all pairs, in the order of `handles`, whose addresses are `bus_ids`."""
    remotes = [far_ends(handle) for handle in handles]
    size = len(handles)
    tokens = [[SELF_TOKEN] * size for _ in range(size)]
    for row in range(size):
        for column in range(row + 1, size):
            count = remotes[row].count(bus_ids[column])
            if count == 0:
                far = [set(remotes[end]) - set(bus_ids) for end in (row, column)]
                if far[0] and far[1] and _nvlink_peers(handles[row], handles[column]):
                    # Through NVSwitch: every link of a card leads to every other card. A virtual
                    # machine may not see the switches, or see its cards at other addresses.
                    count = min(len(remotes[row]), len(remotes[column]))
            token = f"NV{count}" if count else _path(handles[row], handles[column])
            tokens[row][column] = tokens[column][row] = token
    return tuple(tuple(row) for row in tokens)


def paths(handles: Sequence[Any]) -> Links:
    """Return the PCIe paths of all pairs, also of those that NVLink joins."""
    size = range(len(handles))
    upper = {(a, b): _path(handles[a], handles[b]) for a in size for b in size if a < b}
    return tuple(
        tuple(SELF_TOKEN if a == b else upper[min(a, b), max(a, b)] for b in size) for a in size
    )


def _path(first: Any, second: Any) -> str:
    try:
        level = pynvml.nvmlDeviceGetTopologyCommonAncestor(first, second)
    except pynvml.NVMLError:
        return FARTHEST_TOKEN  # virtual machines and some cards don't know the path
    return _TOKENS.get(level, FARTHEST_TOKEN)


def short_bus(bus_id: str | bytes) -> str:
    """Return a PCI address as sysfs spells it: NVML's domain has eight digits, in capitals.

    Raises:
        ValueError: this is no address.
    """
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    domain, _, rest = text.strip("\0").lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def far_ends(handle: Any) -> list[str]:
    """Return the far end of every active NVLink of a card; a switch appears by its own address."""
    found = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            active = pynvml.nvmlDeviceGetNvLinkState(handle, link) == pynvml.NVML_FEATURE_ENABLED
        except pynvml.NVMLError:
            continue  # no NVLink at all, or fewer links than the largest card
        if active:
            found.append(_far_end(handle, link))
    return found


def _far_end(handle: Any, link: int) -> str:
    try:
        return short_bus(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
    except (pynvml.NVMLError, ValueError):
        return _UNKNOWN


def _nvlink_peers(first: Any, second: Any) -> bool:
    try:
        status = pynvml.nvmlDeviceGetP2PStatus(first, second, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    except pynvml.NVMLError:
        return False
    return bool(status == pynvml.NVML_P2P_STATUS_OK)
