"""What the runtime says of itself, and the containers and sandboxes of the node."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from gpustack.adapters.cri import cri_pb2 as pb
from gpustack.model.errors import GpustackError

_SECONDS = 2.0  # containerd answers in milliseconds; Allocate may be waiting
_MAX_ANSWER_BYTES = 16 * 1024 * 1024  # the kubelet's own limit for CRI answers

# Labels that the kubelet puts on every container (k8s.io/kubelet pkg/types).
_POD_UID = "io.kubernetes.pod.uid"
_POD_NAMESPACE = "io.kubernetes.pod.namespace"
_POD_NAME = "io.kubernetes.pod.name"
_CONTAINER_NAME = "io.kubernetes.container.name"

# containerd says "unknown" of a container whose state it could not load when it started: it may
# well run, and the kubelet ends no such container with its pod (kubernetes pull request 73802).
_RUNNING = (pb.CONTAINER_RUNNING, pb.CONTAINER_UNKNOWN)


class CriUnavailable(GpustackError):
    """The runtime's socket does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeVersion:
    """What runs: `containerd` or `cri-o`, and its version, such as `v1.7.24`."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContainer:
    """A container as the runtime knows it.

    Attributes:
        pod: its pod's namespace and name; empty where the runtime doesn't say them.
        running: it runs now, or may: its state is unknown.
        created: it was made and not started yet; it runs as it was made, or never.
        annotations: among others those of the Allocate response.
    """

    id: str
    pod_uid: str
    pod: tuple[str, str]
    name: str
    running: bool
    created: bool
    annotations: Mapping[str, str]


class CriClient:
    """One connection to the runtime.

    Args:
        endpoint: a grpc target, such as `unix:///run/containerd/containerd.sock`.
        timeout_seconds: for one answer.

    Attributes:
        endpoint: as given.
    """

    def __init__(self, endpoint: str, *, timeout_seconds: float = _SECONDS) -> None:
        self.endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        self._channel = grpc.insecure_channel(
            endpoint,
            options=(
                ("grpc.default_authority", "localhost"),
                ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ),
        )
        self._list = self._channel.unary_unary(
            "/runtime.v1.RuntimeService/ListContainers",
            request_serializer=pb.ListContainersRequest.SerializeToString,
            response_deserializer=pb.ListContainersResponse.FromString,
        )
        self._sandboxes = self._channel.unary_unary(
            "/runtime.v1.RuntimeService/ListPodSandbox",
            request_serializer=pb.ListPodSandboxRequest.SerializeToString,
            response_deserializer=pb.ListPodSandboxResponse.FromString,
        )
        self._status = self._channel.unary_unary(
            "/runtime.v1.RuntimeService/Status",
            request_serializer=pb.StatusRequest.SerializeToString,
            response_deserializer=pb.StatusResponse.FromString,
        )
        self._version = self._channel.unary_unary(
            "/runtime.v1.RuntimeService/Version",
            request_serializer=pb.VersionRequest.SerializeToString,
            response_deserializer=pb.VersionResponse.FromString,
        )

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def version(self) -> RuntimeVersion:
        """Return the runtime's name and version.

        Raises:
            CriUnavailable: no answer in time, or it has no CRI v1.
        """
        try:
            answer = self._version(pb.VersionRequest(), timeout=self._timeout_seconds)
        except grpc.RpcError as error:
            raise CriUnavailable(f"Version: {error.details()}") from error
        return RuntimeVersion(name=answer.runtime_name, version=answer.runtime_version)

    def config(self) -> Mapping[str, Any]:
        """Return the runtime's configuration as it shows it; empty where it shows none.

        Raises:
            CriUnavailable: no answer in time, or none that can be read.
        """
        try:
            answer = self._status(pb.StatusRequest(verbose=True), timeout=self._timeout_seconds)
            shown = json.loads(answer.info.get("config", "{}"))
        except grpc.RpcError as error:
            raise CriUnavailable(f"Status: {error.details()}") from error
        except (ValueError, RecursionError) as error:
            raise CriUnavailable(f"Status: info.config: {error}") from error
        return shown if isinstance(shown, dict) else {}

    def containers(self) -> tuple[RuntimeContainer, ...]:
        """Return the containers of all pods; those that the kubelet didn't make are left out.

        Raises:
            CriUnavailable: no answer in time.
        """
        request = pb.ListContainersRequest()
        try:
            answer = self._list(request, timeout=self._timeout_seconds)
        except grpc.RpcError as error:
            raise CriUnavailable(f"ListContainers: {error.details()}") from error
        return tuple(
            RuntimeContainer(
                id=container.id,
                pod_uid=container.labels[_POD_UID],
                pod=(
                    container.labels.get(_POD_NAMESPACE, ""),
                    container.labels.get(_POD_NAME, ""),
                ),
                name=container.labels[_CONTAINER_NAME],
                running=container.state in _RUNNING,
                created=container.state == pb.CONTAINER_CREATED,
                annotations=dict(container.annotations),
            )
            for container in answer.containers
            if _POD_UID in container.labels and _CONTAINER_NAME in container.labels
        )

    def ready_pods(self) -> frozenset[str]:
        """Return the UIDs of pods with a sandbox that is ready: a container may yet start there.

        Raises:
            CriUnavailable: no answer in time.
        """
        try:
            answer = self._sandboxes(pb.ListPodSandboxRequest(), timeout=self._timeout_seconds)
        except grpc.RpcError as error:
            raise CriUnavailable(f"ListPodSandbox: {error.details()}") from error
        return frozenset(
            each.labels[_POD_UID]
            for each in answer.items
            if each.state == pb.SANDBOX_READY and _POD_UID in each.labels
        )
