"""One call to the kubelet's Registration service."""

import pathlib

import grpc

from gpustack.adapters.deviceplugin import deviceplugin_pb2 as pb
from gpustack.adapters.deviceplugin.messages import Plugin
from gpustack.adapters.deviceplugin.server import options
from gpustack.model.errors import GpustackError

_API_VERSION = "v1beta1"
_SECONDS = 10.0  # the kubelet dials back, for up to 10 s, before it answers

# Without it grpc sends the escaped socket path as authority, which Go's HTTP/2 server refuses.
_CHANNEL_OPTIONS = (("grpc.default_authority", "localhost"),)


class KubeletUnavailable(GpustackError):
    """The kubelet did not take the registration; it may later."""


class KubeletRefusal(KubeletUnavailable):
    """The kubelet answered that it doesn't take this registration."""


def register(*, kubelet_socket: pathlib.Path, endpoint: str, plugin: Plugin) -> None:
    """Tell the kubelet that `plugin` listens at `endpoint`, a name in the kubelet socket's folder.

    Raises:
        KubeletRefusal: the kubelet refused.
        KubeletUnavailable: no answer in time.
    """
    request = pb.RegisterRequest(
        version=_API_VERSION,
        endpoint=endpoint,
        resource_name=plugin.resource,
        options=options(plugin),
    )
    with grpc.insecure_channel(f"unix:{kubelet_socket}", options=_CHANNEL_OPTIONS) as channel:
        call = channel.unary_unary(
            "/v1beta1.Registration/Register",
            request_serializer=pb.RegisterRequest.SerializeToString,
            response_deserializer=pb.Empty.FromString,
        )
        try:
            call(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            refused = error.code() is grpc.StatusCode.UNKNOWN  # the code of Go's errors
            kind = KubeletRefusal if refused else KubeletUnavailable
            raise kind(f"{kubelet_socket}: {error.details()}") from error
