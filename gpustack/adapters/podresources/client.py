"""A client of PodResources: the device IDs that the kubelet gave to each container."""

import pathlib
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import TypeVar

import grpc

from gpustack.adapters.podresources import podresources_pb2 as pb
from gpustack.model.errors import GpustackError

_SERVICE = "/v1.PodResourcesLister"
_SECONDS = 2.0  # an answer takes milliseconds; the kubelet waits for us meanwhile
_MAX_ANSWER_BYTES = 16 * 1024 * 1024  # every ID is an entry of its own; grpc's default is 4 MiB
# The kubelet lets 100 calls a second through, 10 at once, of all methods and clients together:
# k8s.io/kubernetes 1.34 pkg/kubelet/apis/podresources/constants.go.
_LIMIT_WAIT_SECONDS = 0.02
_LIMIT_SECONDS = 5.0

_T = TypeVar("_T")


class PodResourcesUnavailable(GpustackError):
    """The kubelet's socket does not answer, or not this method."""


class PodResourcesLimited(GpustackError):
    """The kubelet's rate limit refused a call until its time was over: too many calls come."""


class PodResourcesUnsupported(PodResourcesUnavailable):
    """The kubelet answers, and hasn't got this method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """The device IDs of one pod: container name, then resource name, then IDs.

    Containers that hold nothing appear with an empty mapping; ordinary init containers do not
    appear at all.
    """

    namespace: str
    name: str
    containers: Mapping[str, Mapping[str, frozenset[str]]]

    def ids(self, container: str, resource: str) -> frozenset[str]:
        """Return the IDs of `resource` that `container` holds."""
        return self.containers.get(container, {}).get(resource, frozenset())


class PodResourcesClient:
    """One connection to the kubelet; grpc reconnects by itself after a kubelet restart.

    A call that the kubelet's rate limit refuses is made again until `deadline` (monotonic seconds;
    5 s from now when left out).
    """

    def __init__(self, socket: pathlib.Path) -> None:
        self._channel = grpc.insecure_channel(
            f"unix:{socket}",
            options=(
                ("grpc.default_authority", "localhost"),
                ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ),
        )
        self._list = self._channel.unary_unary(
            f"{_SERVICE}/List",
            request_serializer=pb.ListPodResourcesRequest.SerializeToString,
            response_deserializer=pb.ListPodResourcesResponse.FromString,
        )
        self._get = self._channel.unary_unary(
            f"{_SERVICE}/Get",
            request_serializer=pb.GetPodResourcesRequest.SerializeToString,
            response_deserializer=pb.GetPodResourcesResponse.FromString,
        )

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def list(
        self, names: Container[tuple[str, str]] | None = None, *, deadline: float | None = None
    ) -> tuple[PodDevices, ...]:
        """Return all pods that the kubelet knows, or those of them with these names.

        Args:
            names: namespace and name; a full node's answer has thousands of IDs of other pods.
            deadline: see above.

        Raises:
            PodResourcesUnavailable: no answer in time.
            PodResourcesLimited: refused by the rate limit until `deadline`.
        """
        try:
            answer = _retry_when_limited(
                lambda: self._list(pb.ListPodResourcesRequest(), timeout=_SECONDS), deadline
            )
        except grpc.RpcError as error:
            raise PodResourcesUnavailable(f"List: {error.details()}") from error
        return tuple(
            _pod_devices(pod)
            for pod in answer.pod_resources
            if names is None or (pod.namespace, pod.name) in names
        )

    def get(self, namespace: str, name: str, *, deadline: float | None = None) -> PodDevices | None:
        """Return one pod's devices, or None when the kubelet doesn't know the pod.

        Raises:
            PodResourcesUnavailable: no answer in time.
            PodResourcesLimited: refused by the rate limit until `deadline`.
            PodResourcesUnsupported: a kubelet without `Get` (before 1.34, or switched off).
        """
        request = pb.GetPodResourcesRequest(pod_namespace=namespace, pod_name=name)
        try:
            answer = _retry_when_limited(lambda: self._get(request, timeout=_SECONDS), deadline)
        except grpc.RpcError as error:
            # The kubelet has no status codes of its own: "pod NAME in namespace NAMESPACE not
            # found" and "PodResources API Get method disabled" are both UNKNOWN.
            details = error.details() or ""
            if error.code() is grpc.StatusCode.UNKNOWN and "not found" in details:
                return None
            if error.code() is grpc.StatusCode.UNIMPLEMENTED or "method disabled" in details:
                raise PodResourcesUnsupported(f"Get: {details}") from error
            raise PodResourcesUnavailable(f"Get: {details}") from error
        return _pod_devices(answer.pod_resources)


def _retry_when_limited(call: Callable[[], _T], deadline: float | None) -> _T:
    until = time.monotonic() + _LIMIT_SECONDS if deadline is None else deadline
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if not _is_limited(error):
                raise
            if time.monotonic() + _LIMIT_WAIT_SECONDS > until:
                text = "the kubelet's PodResources refuses calls by its rate limit (100 a second)"
                raise PodResourcesLimited(f"{text}: {error.details()}") from error
        time.sleep(_LIMIT_WAIT_SECONDS)


def _is_limited(error: grpc.RpcError) -> bool:
    # grpc gives the same status for an answer that is too large; a second call doesn't help there.
    is_large = "larger than max" in (error.details() or "")
    return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and not is_large


def _pod_devices(pod: pb.PodResources) -> PodDevices:
    containers: dict[str, dict[str, set[str]]] = {}
    for container in pod.containers:
        held = containers.setdefault(container.name, {})
        for devices in container.devices:
            # One entry for each ID and NUMA node: the same resource appears many times.
            held.setdefault(devices.resource_name, set()).update(devices.device_ids)
    return PodDevices(
        namespace=pod.namespace,
        name=pod.name,
        containers={
            name: {resource: frozenset(ids) for resource, ids in held.items()}
            for name, held in containers.items()
        },
    )
