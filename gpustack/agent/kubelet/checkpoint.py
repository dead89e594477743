"""What the kubelet wrote down of its own allocations: `kubelet_internal_checkpoint`.

PodResources leaves ordinary init containers out, and the answers of Allocate, which the kubelet
keeps and gives to each container that it starts. The file has both, by the pod's UID, and is
current whenever the kubelet calls: it is written when a device list arrives and after every
container that was given devices.

Source of truth: k8s.io/kubernetes pkg/kubelet/cm/devicemanager/checkpoint, whose layout stands
since 1.20. It is the kubelet's own affair, so it only adds to what PodResources says.
"""

import base64
import dataclasses
import json
import logging
import pathlib
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from gpustack.adapters.deviceplugin import deviceplugin_pb2 as pb

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What one container holds of one resource, and what it was answered.

    Attributes:
        ids: device IDs.
        annotations: of the answer.
        mounts: of the answer: path in the container, path on the host.
    """

    pod_uid: str
    container: str
    resource: str
    ids: frozenset[str]
    annotations: Mapping[str, str]
    mounts: Mapping[str, str]


class KubeletCheckpoint:
    """Reads the file anew each time it is asked.

    Args:
        path: where it lies; root may read it.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def given(self) -> tuple[Given, ...]:
        """Return all that was given; nothing when the file doesn't say.

        A kubelet that has never given anything has no file yet.
        """
        try:
            content = json.loads(self._path.read_bytes())
            return tuple(map(_given, content["Data"]["PodDeviceEntries"] or ()))
        except FileNotFoundError:
            return ()
        except (
            OSError,
            ValueError,
            RecursionError,
            KeyError,
            TypeError,
            AttributeError,
            DecodeError,
        ) as error:
            logger.warning("kubelet's checkpoint can't be used path=%s: %r", self._path, error)
            return ()


def _given(entry: Mapping[str, Any]) -> Given:
    answer = pb.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
    return Given(
        pod_uid=str(entry["PodUID"]),
        container=str(entry["ContainerName"]),
        resource=str(entry["ResourceName"]),
        ids=frozenset(str(each) for numa in entry["DeviceIDs"].values() for each in numa),
        annotations=dict(answer.annotations),
        mounts={mount.container_path: mount.host_path for mount in answer.mounts},
    )
