"""A container's mounts besides its cards: driver files, hook, limits; and mounts that hide them.

Pure: paths in, response out. docs/reference/container.md lists the paths inside the container.
"""

import pathlib
import posixpath
from collections.abc import Mapping
from typing import Any, Final

from gpustack.adapters.deviceplugin import ContainerResponse, DeviceNode, Mount
from gpustack.agent.node.host_files import HostPaths
from gpustack.model.placement import ContainerPlacement
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.keys import Keys

DRIVER_PATH: Final = "/usr/local/nvidia"
PRELOAD_PATH: Final = "/etc/ld.so.preload"
HOOK_PATH: Final = "/usr/local/vcuda"
LIMITS_PATH: Final = "/etc/vcuda/limits"
ACTIVITY_PATH: Final = "/etc/vcuda/activity"
LEDGER_PATH: Final = "/run/vcuda/ledger"

# A pod's own mount at or below one of these comes after ours and would hide it. /var/run is a link
# to /run in most images.
PROTECTED_PATHS: Final = (
    DRIVER_PATH,
    PRELOAD_PATH,
    HOOK_PATH,
    "/etc/vcuda",
    "/run/vcuda",
    "/var/run/vcuda",
)
_PROTECTED_NAMES: Final = frozenset(posixpath.basename(each) for each in PROTECTED_PATHS)


def build(
    keys: Keys,
    pod_uid: str,
    placement: ContainerPlacement,
    paths: HostPaths,
    container_folder: pathlib.Path | None,
) -> ContainerResponse:
    """Return the answer for a container of a pod; `container_folder` is None for whole cards."""
    mounts = [Mount(container_path=DRIVER_PATH, host_path=str(paths.driver_volume))]
    if container_folder is not None and paths.hook is not None:
        mounts += _share_mounts(paths.hook, container_folder)
    return ContainerResponse(
        envs={
            "LD_LIBRARY_PATH": f"{DRIVER_PATH}/lib64",
            "NVIDIA_VISIBLE_DEVICES": ",".join(placement.uuids),
        },
        mounts=tuple(mounts),
        devices=tuple(DeviceNode(path=path) for path in (*_nodes(placement), *paths.device_nodes)),
        annotations={
            keys.vcuda_core: str(placement.cores),
            keys.vcuda_memory: str(placement.memory_units * MEMORY_UNIT_BYTES),
            keys.vcuda_device: cards(placement),
            keys.vcuda_pod_uid: pod_uid,
        },
    )


def cards(placement: ContainerPlacement) -> str:
    """Return the annotation that names a container's cards."""
    return ",".join(_nodes(placement))


def _nodes(placement: ContainerPlacement) -> list[str]:
    return [f"/dev/nvidia{minor}" for minor in placement.minors]


def hidden_path(pod: Mapping[str, Any], container: str) -> str | None:
    """Return a mount of this container that would hide one of ours; None when there is none."""
    spec = pod.get("spec") or {}
    for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if each.get("name") != container:
            continue
        paths = [mount.get("mountPath", "") for mount in each.get("volumeMounts") or ()]
        paths += [device.get("devicePath", "") for device in each.get("volumeDevices") or ()]
        for path in paths:
            if is_protected(path):
                return str(path)
    return None


def is_protected(path: str) -> bool:
    """Say whether a pod's mount at this path would hide one of ours."""
    if not any(name in path for name in _PROTECTED_NAMES):
        return False  # any path to one of ours contains its name
    # Two leading slashes are kept by normpath and mean one to the kernel.
    normal = posixpath.normpath("/" + path.lstrip("/"))
    return any(normal == each or normal.startswith(each + "/") for each in PROTECTED_PATHS)


def _share_mounts(hook: pathlib.Path, folder: pathlib.Path) -> list[Mount]:
    return [
        Mount(container_path=PRELOAD_PATH, host_path=str(hook / "ld.so.preload")),
        Mount(container_path=HOOK_PATH, host_path=str(hook)),
        Mount(container_path=LIMITS_PATH, host_path=str(folder / "limits")),
        Mount(container_path=ACTIVITY_PATH, host_path=str(folder / "activity")),
        Mount(container_path=LEDGER_PATH, host_path=str(folder / "ledger"), read_only=False),
    ]
