"""A client of the agent's display, on the same host."""

import pathlib
from typing import Any, Final

import grpc
from google.protobuf import empty_pb2

from gpustack.adapters.display import display_pb2 as pb
from gpustack.model.errors import GpustackError

_SECONDS: Final = 15.0  # longer than the agent takes to say that it has no answer
_CHANNEL_OPTIONS: Final = (("grpc.default_authority", "localhost"),)


class AgentUnavailable(GpustackError):
    """The agent's socket isn't there, or nothing answers."""


class DisplayClient:
    """Asks the agent that listens on a socket.

    Args:
        socket: its `agent.sock`.
    """

    def __init__(self, socket: pathlib.Path) -> None:
        self._socket = socket

    def graph(self) -> str:
        """Return the cards as the original's tree.

        Raises:
            AgentUnavailable: no answer.
        """
        answer: pb.GraphResponse = self._ask("PrintGraph", pb.GraphResponse, _SECONDS)
        return answer.graph

    def version(self, *, timeout_seconds: float = _SECONDS) -> str:
        """Return the version of the agent that runs.

        Raises:
            AgentUnavailable: no answer in time.
        """
        answer: pb.VersionResponse = self._ask("Version", pb.VersionResponse, timeout_seconds)
        return answer.version

    def _ask(self, method: str, kind: Any, seconds: float) -> Any:
        with grpc.insecure_channel(f"unix:{self._socket}", options=_CHANNEL_OPTIONS) as channel:
            call = channel.unary_unary(
                f"/display.GPUDisplay/{method}",
                request_serializer=empty_pb2.Empty.SerializeToString,
                response_deserializer=kind.FromString,
            )
            try:
                return call(empty_pb2.Empty(), timeout=seconds)
            except grpc.RpcError as error:
                raise AgentUnavailable(
                    f"{self._socket}: {error.details()}: does gpustack-agent run on this host, and"
                    " are you root?"
                ) from error
