"""The kubelet's record of its own allocations: `kubelet_internal_checkpoint`.

PodResources leaves out UIDs, ordinary init containers, and the answers of Allocate,
which the kubelet keeps and gives to each container that it starts. The file has all three. It is
replaced as a whole (written beside and renamed), once for each container after its last Allocate:
when a container is about to start, its own entries are there; during Allocate those of the
containers before it are. The entries of an ended pod stay until the next allocation.

Source of truth: k8s.io/kubernetes 1.34 pkg/kubelet/cm/devicemanager (manager.go writeCheckpoint,
checkpoint/checkpoint.go), whose layout stands since 1.20: every kubelet that we support keeps it.
Its checksum is of a Go dump of the values, which only Go can make, and is left alone.
"""

import base64
import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from gpustack.adapters.deviceplugin import deviceplugin_pb2 as pb
from gpustack.model.errors import GpustackError
from gpustack.wire.files import regular_file
from gpustack.wire.keys import Keys

# 16 cards of 192 GiB, all shared out, are 1.3 MB: every ID stands in it twice.
_MAX_BYTES: Final = 16 * 1024 * 1024


class KubeletCheckpointError(GpustackError):
    """The file is missing, too large, or not laid out as we know it; names it and says why."""


class KubeletCheckpointMissing(KubeletCheckpointError):
    """There is no such file: a kubelet without any allocation has none yet."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One container's devices of one resource, and its Allocate answer.

    Attributes:
        ids: device IDs.
        annotations: of the answer.
        mounts: of the answer: path in the container, path on the host.
        cdi_devices: of the answer: names.
    """

    pod_uid: str
    container: str
    resource: str
    ids: frozenset[str]
    annotations: Mapping[str, str]
    mounts: Mapping[str, str]
    cdi_devices: tuple[str, ...] = ()


class _Entry(msgspec.Struct):
    pod_uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    ids: dict[str, list[str]] | None = msgspec.field(name="DeviceIDs")  # by NUMA node
    answer: str | None = msgspec.field(name="AllocResp")


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")


class _File(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


_FILE: Final = msgspec.json.Decoder(_File)


class KubeletCheckpoint:
    """Reads the file anew each time it is asked.

    Args:
        path: where it lies; root may read it.
        keys: name our resources; other plugins' entries are their own.
    """

    def __init__(self, path: pathlib.Path, keys: Keys) -> None:
        self.path = path
        self._resources = (keys.vcuda_core, keys.vcuda_memory)

    def given(self) -> tuple[Given, ...]:
        """Return all allocations of our resources.

        Raises:
            KubeletCheckpointError: the file can't be used.
        """
        try:
            content = regular_file.read(self.path, max_bytes=_MAX_BYTES)
            entries = _FILE.decode(content).data.entries or ()
            return tuple(_given(each) for each in entries if each.resource in self._resources)
        except FileNotFoundError as error:
            raise KubeletCheckpointMissing(f"kubelet's checkpoint {self.path}: missing") from error
        except (OSError, ValueError, RecursionError, msgspec.DecodeError, DecodeError) as error:
            raise KubeletCheckpointError(f"kubelet's checkpoint {self.path}: {error}") from error


def _given(entry: _Entry) -> Given:
    answer = pb.ContainerAllocateResponse.FromString(base64.b64decode(entry.answer or ""))
    return Given(
        pod_uid=entry.pod_uid,
        container=entry.container,
        resource=entry.resource,
        ids=frozenset(each for numa in (entry.ids or {}).values() for each in numa),
        annotations=dict(answer.annotations),
        mounts={mount.container_path: mount.host_path for mount in answer.mounts},
        cdi_devices=tuple(device.name for device in answer.cdi_devices),
    )
