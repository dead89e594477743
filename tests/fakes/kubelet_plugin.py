"""The kubelet's connection to one device plugin."""

import pathlib
import threading
from collections.abc import Callable
from typing import Any

import grpc

from gpustack.adapters.deviceplugin import deviceplugin_pb2 as plugin_pb

_SECONDS = 15.0  # how long anything may take before a test counts as hung


class AdmissionError(AssertionError):
    """A plugin refused; the kubelet would fail the pod with UnexpectedAdmissionError."""

    def __init__(self, error: grpc.RpcError) -> None:
        super().__init__(str(error.details()))
        self.code = error.code()


class ConnectionLost(AssertionError):
    """A plugin died before its answer came; the kubelet would fail the pod, as for a refusal."""


class Plugin:
    """A registered device plugin: one connection, one ListAndWatch stream.

    `asked` gets the resource and the method of each call before it is made, and `answered` when it
    was answered, before the kubelet takes the answer.
    """

    def __init__(
        self,
        socket: pathlib.Path,
        request: plugin_pb.RegisterRequest,
        changed: threading.Condition,
        asked: Callable[[str, str], None],
        answered: Callable[[str], None],
    ) -> None:
        self.resource, self.endpoint = request.resource_name, request.endpoint
        self.options = request.options
        self.lists: list[list[plugin_pb.Device]] = []
        self.ended = False
        self._changed = changed
        self._asked, self._answered = asked, answered
        self._channel = grpc.insecure_channel(
            f"unix:{socket}",
            options=(
                ("grpc.default_authority", "localhost"),
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.max_receive_message_length", 4 * 1024 * 1024),
            ),
        )
        self._stream = self._channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=plugin_pb.Empty.SerializeToString,
            response_deserializer=plugin_pb.ListAndWatchResponse.FromString,
        )(plugin_pb.Empty(), wait_for_ready=True)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        try:
            for response in self._stream:
                with self._changed:
                    self.lists.append(list(response.devices))
                    self._changed.notify_all()
        except grpc.RpcError:
            pass  # the stream has ended, as the next lines note
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def close(self) -> None:
        self._stream.cancel()
        self._thread.join(_SECONDS)
        self._channel.close()

    def healthy(self) -> list[str]:
        return [device.ID for device in self.lists[-1] if device.health == "Healthy"]

    def call(self, method: str, request: Any, response_type: Any) -> Any:
        call = self._channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response_type.FromString,
        )
        self._asked(self.resource, method)
        try:
            answer = call(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            raise AdmissionError(error) from error
        self._answered(method)
        return answer
