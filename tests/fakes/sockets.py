"""Sockets of the fakes: a gRPC server made of plain functions, and peers that fall silent."""

import concurrent.futures
import ctypes
import pathlib
import socket as sockets
import struct
from typing import Any, Final

import grpc


def serve(
    socket: pathlib.Path, service: str, methods: dict[str, "grpc.RpcMethodHandler[Any, Any]"]
) -> grpc.Server:
    """Listen; the caller stops the server."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


_SO_ATTACH_FILTER: Final = 26  # linux/include/uapi/asm-generic/socket.h; not in Python's socket
_BPF_RET: Final = 0x06  # linux/include/uapi/linux/bpf_common.h: return a constant, here 0 bytes


def fall_silent(connection: sockets.socket) -> None:
    """Let the kernel drop packets before it acknowledges them: the host is as if cut off."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RET, 0, 0, 0))
    described = struct.pack("HP", 1, ctypes.addressof(program))
    connection.setsockopt(sockets.SOL_SOCKET, _SO_ATTACH_FILTER, described)
