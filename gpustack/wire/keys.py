"""Every resource and annotation name: `DOMAIN/NAME` (docs/reference.md)."""

import functools
from dataclasses import dataclass
from typing import Final

from gpustack.model.request import ContainerKind

DEFAULT_DOMAIN: Final = "tencent.com"


@dataclass(frozen=True)  # without slots: each name is put together once
class Keys:
    """Every resource and annotation name of one domain."""

    domain: str = DEFAULT_DOMAIN

    def _key(self, name: str) -> str:
        return f"{self.domain}/{name}"

    @functools.cached_property
    def vcuda_core(self) -> str:
        """Resource: hundredths of a card."""
        return self._key("vcuda-core")

    @functools.cached_property
    def vcuda_memory(self) -> str:
        """Resource: units of 256 MiB."""
        return self._key("vcuda-memory")

    @functools.cached_property
    def vcuda_device(self) -> str:
        """Container annotation of the Allocate response: `/dev/nvidia<minor>`, comma-separated."""
        return self._key("vcuda-device")

    @functools.cached_property
    def vcuda_pod_uid(self) -> str:
        """Container annotation of the Allocate response: the UID of the pod that it is for."""
        return self._key("vcuda-pod-uid")

    @functools.cached_property
    def predicate_time(self) -> str:
        """Time of the decision: Unix nanoseconds, decimal."""
        return self._key("predicate-time")

    @functools.cached_property
    def predicate_node(self) -> str:
        """The node of the decision."""
        return self._key("predicate-node")

    @functools.cached_property
    def gpu_assigned(self) -> str:
        """`false`, then `true` once the agent has verified every container."""
        return self._key("gpu-assigned")

    @functools.cached_property
    def gpu_retry(self) -> str:
        """Unix nanoseconds: capacity appeared after this waiting pod was refused."""
        return self._key("gpu-retry")

    @functools.cached_property
    def gpu_devices(self) -> str:
        """Node annotation: its cards and links."""
        return self._key("gpu-devices")

    @functools.cached_property
    def gpu_violations(self) -> str:
        """Node annotation: what containers of it do against their limits."""
        return self._key("gpu-violations")

    @functools.cached_property
    def core_limit(self) -> str:
        """User: percent up to which idle compute may be used."""
        return self._key("vcuda-core-limit")

    @functools.cached_property
    def gpu_model(self) -> str:
        """User: acceptable models."""
        return self._key("gpu-model")

    @functools.cached_property
    def gpu_uuid(self) -> str:
        """User: acceptable cards."""
        return self._key("gpu-uuid")

    @functools.cached_property
    def gpu_topology(self) -> str:
        """User: how the cards of a container must be joined."""
        return self._key("gpu-topology")

    @functools.cached_property
    def gpu_placement(self) -> str:
        """User: binpack or spread, over nodes and over cards."""
        return self._key("gpu-placement")

    @functools.cached_property
    def driver_path(self) -> str:
        """User: whether containers get LD_LIBRARY_PATH."""
        return self._key("driver-path")

    @functools.cached_property
    def idx_prefix(self) -> str:
        """The prefix of the keys of all containers' minors."""
        return self._key("predicate-gpu-idx-")

    @functools.cached_property
    def uuid_prefix(self) -> str:
        """The prefix of the keys of all containers' UUIDs."""
        return self._key("predicate-gpu-uuid-")

    def idx(self, kind: ContainerKind, index: int) -> str:
        """Return the key of one container's minors; `index` as in ContainerRequest."""
        return self.idx_prefix + position(kind, index)

    def uuid(self, kind: ContainerKind, index: int) -> str:
        """Return the key of one container's UUIDs."""
        return self.uuid_prefix + position(kind, index)


def position(kind: ContainerKind, index: int) -> str:
    """Return how a key names a container: `0` in spec.containers, `init-0` in initContainers."""
    return str(index) if kind is ContainerKind.APP else f"init-{index}"
