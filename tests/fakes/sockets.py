"""A gRPC server on a unix socket, made of plain functions: what the fakes listen with."""

import concurrent.futures
import pathlib
from typing import Any

import grpc


def serve(
    socket: pathlib.Path, service: str, methods: dict[str, "grpc.RpcMethodHandler[Any, Any]"]
) -> grpc.Server:
    """Listen; whoever calls stops the server."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server
