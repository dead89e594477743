"""A device plugin's requests and answers as values instead of protobuf messages."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpustack.model.codes import AdmissionReason
from gpustack.model.errors import GpustackError
from gpustack.model.refusal import Reason


class PluginRefusal(GpustackError):
    """The plugin refuses. The kubelet shows the text to the user: it starts with the reason."""

    def __init__(self, reason: AdmissionReason | Reason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One advertised ID. `numa` is the NUMA node of the card behind it, None where unknown."""

    id: str
    healthy: bool
    numa: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device file that the container gets, under the same path as on the host.

    `permissions` are cgroup device permissions: r, w; m (mknod) is never needed.
    """

    path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of the host that the container sees at `container_path`."""

    container_path: str
    host_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResponse:
    """The kubelet's input to the container runtime for one container.

    `cdi_devices` are names of CDI devices, VENDOR/CLASS=NAME; kubelets before 1.29 ignore them.
    """

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    devices: Sequence[DeviceNode] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: Sequence[str] = ()


class Plugin(Protocol):
    """The decisions behind one resource. Methods run on the server's threads."""

    @property
    def resource(self) -> str:
        """The extended resource's full name."""

    @property
    def pre_start_required(self) -> bool:
        """Whether the kubelet shall call `pre_start` before it starts a container."""

    def device_lists(self, ended: threading.Event) -> Iterator[Sequence[Device]]:
        """Yield the whole list at once, then again at each change, until `ended` is set."""

    def wake(self) -> None:
        """Let `device_lists` see that a stream has ended."""

    def preferred(
        self, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Return the `size` IDs of `available` that fit best, with all of `required`."""

    def allocate(self, ids: Sequence[str]) -> ContainerResponse:
        """Answer the kubelet's Allocate for one container.

        Raises:
            PluginRefusal: the container can't have its devices; the kubelet fails the pod.
        """

    def pre_start(self, ids: Sequence[str]) -> None:
        """Check and prepare a container that is about to start.

        Raises:
            PluginRefusal: the container must not start; the kubelet tries again later.
        """
