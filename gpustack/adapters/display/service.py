"""The methods of `display.GPUDisplay`. An answer is made once for all that ask meanwhile."""

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import grpc
from google.protobuf import empty_pb2, json_format

from gpustack.adapters.display import display_pb2 as pb

logger = logging.getLogger(__name__)

SERVICE: Final = "display.GPUDisplay"
_SECONDS: Final = 10.0  # a driver that hangs must not keep the server's threads

_T = TypeVar("_T")


class DisplaySource(Protocol):
    """What there is to show. Methods run on threads of the service, one call of each at a time."""

    def graph(self) -> str:
        """Return the cards as the original's tree."""

    def usages(self) -> Mapping[str, object]:
        """Return the original's UsageResponse as plain values, by its field names."""

    def version(self) -> str:
        """Return the version of the program."""


def methods(source: DisplaySource) -> "Mapping[str, grpc.RpcMethodHandler[Any, Any]]":
    """Return the service's methods by their names."""
    return {
        "PrintGraph": _method(lambda: pb.GraphResponse(graph=source.graph()), pb.GraphResponse),
        "PrintUsages": _method(
            lambda: json_format.ParseDict(dict(source.usages()), pb.UsageResponse()),
            pb.UsageResponse,
        ),
        "Version": _method(
            lambda: pb.VersionResponse(version=source.version()), pb.VersionResponse
        ),
    }


def _method(make: Callable[[], _T], kind: Any) -> "grpc.RpcMethodHandler[Any, Any]":
    shared = _Shared(make)
    return grpc.unary_unary_rpc_method_handler(
        shared.answer,
        request_deserializer=empty_pb2.Empty.FromString,
        response_serializer=kind.SerializeToString,
    )


class _Shared(Generic[_T]):
    """One answer in the making."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="display")
        self._lock = threading.Lock()  # guards _making
        self._making: concurrent.futures.Future[_T] | None = None

    def answer(self, _: empty_pb2.Empty, context: grpc.ServicerContext) -> _T:
        with self._lock:
            if self._making is None or self._making.done():
                self._making = self._pool.submit(self._make)
            making = self._making
        try:
            return making.result(_SECONDS)
        except TimeoutError:
            context.abort(grpc.StatusCode.UNAVAILABLE, f"not made within {_SECONDS:g} s")
