"""A container's mounts besides its cards: driver files, hook, limits.

Pure: paths in, response out. docs/reference/container.md lists the paths inside the container.
"""

import pathlib

from gpustack.adapters.deviceplugin import ContainerResponse, DeviceNode, Mount
from gpustack.agent.node.device_nodes import card_path
from gpustack.agent.node.host_files import HostPaths
from gpustack.model.placement import ContainerPlacement
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.container_paths import (
    ACTIVITY_PATH,
    DRIVER_PATH,
    HOOK_PATH,
    LEDGER_PATH,
    LIMITS_PATH,
    PRELOAD_PATH,
)
from gpustack.wire.keys import Keys


def build(
    keys: Keys,
    pod_uid: str,
    placement: ContainerPlacement,
    paths: HostPaths,
    container_folder: pathlib.Path | None,
    *,
    library_path: bool = True,
) -> ContainerResponse:
    """Return the answer for a container of a pod.

    Args:
        keys: the domain's names.
        pod_uid: the pod's.
        placement: the container's cards.
        paths: the host's files.
        container_folder: its limits, activity and ledger; None for whole cards.
        library_path: whether it gets LD_LIBRARY_PATH.
    """
    nodes = () if paths.cdi_devices else (*_nodes(placement), *paths.device_nodes)
    mounts = [Mount(container_path=DRIVER_PATH, host_path=str(paths.driver_volume))]
    if container_folder is not None and paths.hook is not None:
        mounts += _share_mounts(paths.hook, container_folder)
    return ContainerResponse(
        envs={
            **({"LD_LIBRARY_PATH": f"{DRIVER_PATH}/lib64"} if library_path else {}),
            "NVIDIA_VISIBLE_DEVICES": ",".join(placement.uuids),
        },
        mounts=tuple(mounts),
        devices=tuple(DeviceNode(path=path) for path in nodes),
        cdi_devices=paths.cdi_devices,
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
    return [card_path(minor) for minor in placement.minors]


def _share_mounts(hook: pathlib.Path, folder: pathlib.Path) -> list[Mount]:
    return [
        Mount(container_path=PRELOAD_PATH, host_path=str(hook / "ld.so.preload")),
        Mount(container_path=HOOK_PATH, host_path=str(hook)),
        Mount(container_path=LIMITS_PATH, host_path=str(folder / "limits")),
        Mount(container_path=ACTIVITY_PATH, host_path=str(folder / "activity")),
        Mount(container_path=LEDGER_PATH, host_path=str(folder / "ledger"), read_only=False),
    ]
