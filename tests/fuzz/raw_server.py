"""A gRPC server whose answer to every method is whatever bytes a target puts there."""

import pathlib
import tempfile
from typing import Any, Final

import grpc

from tests.fakes.sockets import serve


class RawServer:
    """Runs until the process ends, on a real socket.

    Args:
        service: the full name.
        methods: names of its methods.

    Attributes:
        socket: where it listens.
        answer: the next answer, as bytes of protobuf or of anything else.
    """

    def __init__(self, service: str, *methods: str) -> None:
        self._folder: Final = tempfile.TemporaryDirectory(prefix="gs.fuzz.")
        self.socket: Final = pathlib.Path(self._folder.name) / "raw.sock"
        self.answer = b""
        # Without serializers bytes go as they are.
        handler: Any = grpc.unary_unary_rpc_method_handler(lambda _request, _context: self.answer)
        self._server: Final = serve(self.socket, service, dict.fromkeys(methods, handler))
