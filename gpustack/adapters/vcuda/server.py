"""`vcuda.VCUDAService`, by which the original's library registers a process of its container."""

import concurrent.futures
import logging
import pathlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Never

import grpc

from gpustack.adapters.vcuda import vcuda_pb2 as pb
from gpustack.adapters.vcuda.peer_relay import DEFAULT_BOUNDS, Caller, PeerRelay, RelayBounds
from gpustack.model.errors import GpustackError
from gpustack.wire.one_line import one_line

logger = logging.getLogger(__name__)

_SERVICE: Final = "vcuda.VCUDAService"
_LONGEST_REFUSAL: Final = 500  # characters
_REQUEST_BYTES: Final = 4096  # four names: 200 bytes
_HEAD_BYTES: Final = 8192
_STOP_SECONDS: Final = 1.0


class RegistrationRefused(GpustackError):
    """The caller gets no files; the text says why. The original's library ends its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A registration.

    Attributes:
        caller: who calls, by the kernel.
        container_id: what it says is its container's ID; empty where it says a name.
        container_name: what it says is its container's name.
    """

    caller: Caller
    container_id: str
    container_name: str


class VcudaServer:
    """Serves any number of sockets, each of one pod.

    Args:
        own_socket: where the gRPC server listens for the relay, in a folder that is made for root
            alone: who reaches it could say that another calls.
        register: carries a registration out; raises `RegistrationRefused`.
        bounds: of the callers.
    """

    def __init__(
        self,
        own_socket: pathlib.Path,
        register: Callable[[Registration], None],
        bounds: RelayBounds = DEFAULT_BOUNDS,
    ) -> None:
        self._own_socket = own_socket
        self._register = register
        # A call whose message doesn't come keeps its thread: each connection may have one.
        self._threads = bounds.total
        self._relay = PeerRelay(own_socket, bounds)

    @property
    def dropped(self) -> int:
        """Connections that were closed because they exceeded a bound."""
        return self._relay.dropped

    def listen(self, pod_uid: str, listener: socket.socket) -> None:
        """Serve a pod's listening socket."""
        self._relay.listen(pod_uid, listener)

    def forget(self, pod_uid: str) -> None:
        """Close a pod's socket and its connections."""
        self._relay.forget(pod_uid)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set."""
        folder = self._own_socket.parent
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        self._own_socket.unlink(missing_ok=True)
        pool = concurrent.futures.ThreadPoolExecutor(self._threads, thread_name_prefix="vcuda")
        server = grpc.server(
            pool,
            options=(
                ("grpc.max_concurrent_streams", 1),
                ("grpc.max_receive_message_length", _REQUEST_BYTES),
                ("grpc.max_metadata_size", _HEAD_BYTES),
            ),
        )
        call = grpc.unary_unary_rpc_method_handler(
            self._answer,
            request_deserializer=pb.VDeviceRequest.FromString,
            response_serializer=pb.VDeviceResponse.SerializeToString,
        )
        handlers = grpc.method_handlers_generic_handler(_SERVICE, {"RegisterVDevice": call})
        server.add_generic_rpc_handlers((handlers,))
        server.add_insecure_port(f"unix:{self._own_socket}")
        server.start()
        try:
            self._relay.run(stop)
        finally:
            server.stop(grace=_STOP_SECONDS).wait()
            self._own_socket.unlink(missing_ok=True)

    def _answer(
        self, request: pb.VDeviceRequest, context: grpc.ServicerContext
    ) -> pb.VDeviceResponse:
        caller = self._relay.caller(context.peer())
        if caller is None:
            _refuse(context, "not known who calls")
        registration = Registration(
            caller=caller,
            container_id=request.container_id,
            container_name=request.container_name,
        )
        try:
            self._register(registration)
        except RegistrationRefused as refusal:
            logger.warning(
                "registration refused pod_uid=%s pid=%d: %s", caller.socket, caller.pid, refusal
            )
            _refuse(context, str(refusal))
        return pb.VDeviceResponse()


def _refuse(context: grpc.ServicerContext, text: str) -> Never:
    # The original's errors have this code, too: Go's errors without one do.
    context.abort(grpc.StatusCode.UNKNOWN, one_line(text, _LONGEST_REFUSAL))
