"""The kubelet's PodResources socket: its answers about pods, and its limit of calls.

Source of truth: k8s.io/kubernetes 1.34 pkg/kubelet/apis/podresources/server_v1.go, and for the
limit ../constants.go (100 calls a second, 10 at once, all methods and clients together) and
pkg/kubelet/apis/grpc/ratelimit.go (code and text of a refusal).
"""

import pathlib
import threading
import time

import grpc

from gpustack.adapters.podresources import podresources_pb2 as pb
from tests.fakes.kubelet_state import Known, pod_resources
from tests.fakes.sockets import serve

_CALLS_A_SECOND = 100.0
_CALLS_AT_ONCE = 10.0


class _TokenBucket:
    """A bucket that fills at a rate and is full at first: golang.org/x/time/rate's `Allow`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens = _CALLS_AT_ONCE
        self._filled = time.monotonic()

    def allow(self) -> bool:
        with self._lock:
            now = time.monotonic()
            gained = (now - self._filled) * _CALLS_A_SECOND
            self._tokens = min(_CALLS_AT_ONCE, self._tokens + gained)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class PodResourcesService:
    """One node's PodResources, over the pods that the kubelet knows."""

    def __init__(self) -> None:
        self.has_get = True
        self.lists_active = True  # as since 1.34: List leaves out the pods that were rejected
        self.answers = True
        self.limited = 0  # calls that are still refused, whatever the rate
        self.calls = 0  # all calls, also refused ones
        self.refusals = 0  # by the rate limit
        self.lists = 0  # answers of List
        self.nonsense: bytes | None = None  # what it says instead of an answer
        self.known: dict[str, Known] = {}  # by UID
        self._bucket = _TokenBucket()

    def serve_resources(self, socket: pathlib.Path) -> grpc.Server:
        return serve(
            socket,
            "v1.PodResourcesLister",
            {
                "List": grpc.unary_unary_rpc_method_handler(
                    self._list,
                    request_deserializer=pb.ListPodResourcesRequest.FromString,
                    response_serializer=self._as_bytes,
                ),
                "Get": grpc.unary_unary_rpc_method_handler(
                    self._get,
                    request_deserializer=pb.GetPodResourcesRequest.FromString,
                    response_serializer=self._as_bytes,
                ),
            },
        )

    def _as_bytes(self, answer: pb.ListPodResourcesResponse | pb.GetPodResourcesResponse) -> bytes:
        return answer.SerializeToString() if self.nonsense is None else self.nonsense

    def _list(
        self, _: pb.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> pb.ListPodResourcesResponse:
        self._check_answers(context)
        self.lists += 1
        pods = [
            pod_resources(known)
            for known in list(self.known.values())
            if not (known.rejected and self.lists_active)
        ]
        return pb.ListPodResourcesResponse(pod_resources=pods)

    def _get(
        self, request: pb.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> pb.GetPodResourcesResponse:
        self._check_answers(context)
        if not self.has_get:
            context.abort(grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled")
        wanted = (request.pod_namespace, request.pod_name)
        for known in reversed(list(self.known.values())):  # the newest pod of a name
            metadata = known.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == wanted:
                return pb.GetPodResourcesResponse(pod_resources=pod_resources(known))
        message = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        context.abort(grpc.StatusCode.UNKNOWN, message)

    def _check_answers(self, context: grpc.ServicerContext) -> None:
        self.calls += 1
        if not self.answers:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the kubelet is busy")
        forced, self.limited = self.limited > 0, max(0, self.limited - 1)
        if forced or not self._bucket.allow():
            self.refusals += 1
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
