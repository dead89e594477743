"""A device plugin on its own unix socket, as the kubelet calls it.

The kubelet keeps one ListAndWatch stream open for as long as it knows the plugin; the server counts
them, because registering again while an old stream is open makes the kubelet drop the new
connection together with the old one, or refuse it.
"""

import concurrent.futures
import contextlib
import functools
import logging
import pathlib
import threading
from collections.abc import Iterator, Sequence
from typing import Never

import grpc

from gpustack.adapters.deviceplugin import deviceplugin_pb2 as pb
from gpustack.adapters.deviceplugin.messages import ContainerResponse, Device, Plugin, PluginRefusal
from gpustack.wire.one_line import one_line

logger = logging.getLogger(__name__)

_SERVICE = "v1beta1.DevicePlugin"
_HEALTHY, _UNHEALTHY = "Healthy", "Unhealthy"
_THREADS = 8  # the kubelet holds one stream and makes one call at a time; the rest is reserve
_LONGEST_REFUSAL = 1000  # characters: the kubelet puts it into its log and the pod's status
_STOP_SECONDS = 1.0  # calls in flight get this long to end


class PluginServer:
    """Serves one `Plugin`; start and stop may alternate, because the kubelet deletes sockets.

    Attributes:
        socket: where it listens from the next start on.
        ended: how many ListAndWatch streams have ended.
    """

    def __init__(self, *, plugin: Plugin, socket: pathlib.Path) -> None:
        self.socket = socket
        self.plugin = plugin
        self.ended = 0
        self._server: grpc.Server | None = None
        self._stopping = threading.Event()
        self._streams: set[threading.Event] = set()
        self._lock = threading.Lock()  # guards _streams

    @property
    def streams(self) -> int:
        """How many ListAndWatch streams are open."""
        with self._lock:
            return len(self._streams)

    def start(self) -> None:
        """Listen on the socket; a file that an earlier process left is replaced."""
        self.socket.unlink(missing_ok=True)
        self._stopping.clear()
        pool = concurrent.futures.ThreadPoolExecutor(
            max_workers=_THREADS, thread_name_prefix=self.socket.stem
        )
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((self._handlers(),))
        server.add_insecure_port(f"unix:{self.socket}")
        # The kubelet is root; any other user with write access to a socket may call us. A kubelet
        # that starts removes the sockets that it finds, and then this one is made again.
        with contextlib.suppress(FileNotFoundError):
            self.socket.chmod(0o600)
        server.start()
        self._server = server

    def stop(self) -> None:
        """End the streams and stop listening; the socket file is gone afterwards."""
        self._stopping.set()
        with self._lock:
            for ended in self._streams:
                ended.set()
        self.plugin.wake()
        if self._server is not None:
            self._server.stop(grace=_STOP_SECONDS).wait()
            self._server = None
        self.socket.unlink(missing_ok=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                    self._options,
                    request_deserializer=pb.Empty.FromString,
                    response_serializer=pb.DevicePluginOptions.SerializeToString,
                ),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list_and_watch,
                    request_deserializer=pb.Empty.FromString,
                    response_serializer=pb.ListAndWatchResponse.SerializeToString,
                ),
                "GetPreferredAllocation": grpc.unary_unary_rpc_method_handler(
                    self._preferred,
                    request_deserializer=pb.PreferredAllocationRequest.FromString,
                    response_serializer=pb.PreferredAllocationResponse.SerializeToString,
                ),
                "Allocate": grpc.unary_unary_rpc_method_handler(
                    self._allocate,
                    request_deserializer=pb.AllocateRequest.FromString,
                    response_serializer=pb.AllocateResponse.SerializeToString,
                ),
                "PreStartContainer": grpc.unary_unary_rpc_method_handler(
                    self._pre_start,
                    request_deserializer=pb.PreStartContainerRequest.FromString,
                    response_serializer=pb.PreStartContainerResponse.SerializeToString,
                ),
            },
        )

    def _options(self, _: pb.Empty, __: grpc.ServicerContext) -> pb.DevicePluginOptions:
        return options(self.plugin)

    def _list_and_watch(
        self, _: pb.Empty, context: grpc.ServicerContext
    ) -> Iterator[pb.ListAndWatchResponse]:
        ended = threading.Event()
        with self._lock:
            self._streams.add(ended)
        lives = context.add_callback(functools.partial(self._end, ended))
        if not lives or self._stopping.is_set():
            ended.set()  # it was over before this thread came to it, and nothing else says so
        logger.info("kubelet watches devices resource=%s", self.plugin.resource)
        try:
            for devices in self.plugin.device_lists(ended):
                yield _device_list(devices)
        finally:
            with self._lock:
                self._streams.discard(ended)
                self.ended += 1
            logger.info("kubelet stopped watching devices resource=%s", self.plugin.resource)

    def _end(self, ended: threading.Event) -> None:
        ended.set()
        self.plugin.wake()

    def _preferred(
        self, request: pb.PreferredAllocationRequest, _: grpc.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        response = pb.PreferredAllocationResponse()
        for one in request.container_requests:
            ids = self.plugin.preferred(
                one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size
            )
            response.container_responses.add(deviceIDs=ids)
        return response

    def _allocate(
        self, request: pb.AllocateRequest, context: grpc.ServicerContext
    ) -> pb.AllocateResponse:
        response = pb.AllocateResponse()
        try:
            for one in request.container_requests:
                answer = self.plugin.allocate(tuple(one.devices_ids))
                response.container_responses.append(_container_response(answer))
        except PluginRefusal as refusal:
            _refuse(context, "Allocate", self.plugin.resource, refusal)
        return response

    def _pre_start(
        self, request: pb.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> pb.PreStartContainerResponse:
        try:
            self.plugin.pre_start(tuple(request.devices_ids))
        except PluginRefusal as refusal:
            _refuse(context, "PreStartContainer", self.plugin.resource, refusal)
        return pb.PreStartContainerResponse()


def options(plugin: Plugin) -> pb.DevicePluginOptions:
    """Return the plugin's options for the kubelet; registration and server send the same."""
    return pb.DevicePluginOptions(
        pre_start_required=plugin.pre_start_required, get_preferred_allocation_available=True
    )


def _refuse(
    context: grpc.ServicerContext, call: str, resource: str, refusal: PluginRefusal
) -> Never:
    logger.warning("%s refused resource=%s: %s", call, resource, refusal)
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, one_line(str(refusal), _LONGEST_REFUSAL))


def _device_list(devices: Sequence[Device]) -> pb.ListAndWatchResponse:
    response = pb.ListAndWatchResponse()
    for device in devices:
        health = _HEALTHY if device.healthy else _UNHEALTHY
        entry = response.devices.add(ID=device.id, health=health)
        if device.numa is not None:
            entry.topology.nodes.add(ID=device.numa)
    return response


def _container_response(answer: ContainerResponse) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=answer.envs,
        mounts=[
            pb.Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                read_only=mount.read_only,
            )
            for mount in answer.mounts
        ],
        devices=[
            pb.DeviceSpec(
                container_path=node.path, host_path=node.path, permissions=node.permissions
            )
            for node in answer.devices
        ],
        annotations=answer.annotations,
        cdi_devices=[pb.CDIDevice(name=name) for name in answer.cdi_devices],
    )
