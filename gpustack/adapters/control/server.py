"""gRPC services at a socket of root's alone.

gRPC for Python doesn't tell a service who calls: its context has no credentials of a unix socket.
The kernel does so at connect: it wants the right to write to the socket's file (unix(7)), which has
mode 0600 and lies in a folder that other users can't enter.
"""

import concurrent.futures
import pathlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

_THREADS: Final = 4
_MOST_CALLS: Final = 16  # at once; more are refused
_MOST_BYTES: Final = 64 * 1024  # of a request: they are a few words
_STOP_SECONDS: Final = 1.0  # calls in flight get this long to end
_HANDSHAKE_MS: Final = 5_000
_IDLE_MS: Final = 60_000  # a connection without a call is closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A gRPC service.

    Attributes:
        name: with its package, such as `gpustack.v1.Control`.
        methods: by their names.
    """

    name: str
    methods: Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]


class ControlServer:
    """Serves at a socket while it runs.

    Args:
        path: the socket; a file that an earlier process left there is replaced.
        services: what root may call there.
    """

    def __init__(self, path: pathlib.Path, services: Sequence[Service]) -> None:
        self._path = path
        self._services = tuple(services)

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set.

        Raises:
            RuntimeError: gRPC can't listen there.
            OSError: the socket can't be laid.
        """
        server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(
                max_workers=_THREADS, thread_name_prefix="control"
            ),
            maximum_concurrent_rpcs=_MOST_CALLS,
            options=(
                ("grpc.max_receive_message_length", _MOST_BYTES),
                ("grpc.max_connection_idle_ms", _IDLE_MS),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ),
        )
        server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(each.name, dict(each.methods))
                for each in self._services
            )
        )
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{new}")
        try:
            new.chmod(0o600)
            server.start()
            new.replace(self._path)  # now it answers
            stop.wait()
        finally:
            server.stop(grace=_STOP_SECONDS).wait()
            self._path.unlink(missing_ok=True)
