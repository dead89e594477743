"""A program that shares memory of the card by a descriptor: shared_memory.py SOCKET MIB.

It knows nothing of the hook. Answers each word of a line with 0, or with the error's name:
`make` takes memory and exports it, `give` hands its descriptor to who connects to the socket,
`take` gets one there and imports the memory, `close` closes the descriptor.
"""

import ctypes
import json
import os
import socket
import struct
import sys

POSIX_DESCRIPTOR = 1
# CUmemAllocationProp: pinned memory of device 0, to be shared by a descriptor.
PROPERTIES = struct.pack("<iiiiQ8x", 1, POSIX_DESCRIPTOR, 1, 0, 0)


class Refused(Exception):
    """A call failed; the text is the error's name."""


class Sharing:
    """One process with one context, and the memory that it made or imported."""

    def __init__(self, path: str, mib: int) -> None:
        self._path = path
        self._bytes = mib << 20
        self._library = ctypes.CDLL("libcuda.so.1")
        self._check(self._library.cuInit(0))
        context = ctypes.c_void_p()
        self._check(self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self._check(self._library.cuCtxSetCurrent(context))
        self._memory = ctypes.c_uint64()
        self._descriptor = -1
        self._listener: socket.socket | None = None

    def _check(self, code: int) -> None:
        if code:
            raise Refused(f"CUDA_ERROR {code}")

    def begin(self) -> None:
        """Have a context, and nothing else."""

    def make(self) -> None:
        made, shared = ctypes.byref(self._memory), ctypes.c_int()
        size = ctypes.c_size_t(self._bytes)
        self._check(self._library.cuMemCreate(made, size, PROPERTIES, ctypes.c_uint64(0)))
        self._check(
            self._library.cuMemExportToShareableHandle(
                ctypes.byref(shared), self._memory, POSIX_DESCRIPTOR, ctypes.c_uint64(0)
            )
        )
        self._descriptor = shared.value
        self._listener = socket.create_server(self._path, family=socket.AF_UNIX)

    def give(self) -> None:
        assert self._listener is not None
        connection, _ = self._listener.accept()
        with connection:
            socket.send_fds(connection, [b"x"], [self._descriptor])

    def take(self) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._path)
            _, (self._descriptor,), _, _ = socket.recv_fds(connection, 1, 1)
        descriptor = ctypes.c_void_p(self._descriptor)
        self._check(
            self._library.cuMemImportFromShareableHandle(
                ctypes.byref(self._memory), descriptor, POSIX_DESCRIPTOR
            )
        )

    def close(self) -> None:
        os.close(self._descriptor)


def main() -> None:
    path, mib = sys.argv[1:]
    sharing: Sharing | None = None
    for line in sys.stdin:
        said: object = 0
        try:
            sharing = sharing or Sharing(path, int(mib))
            words = {each.__name__: each for each in (sharing.begin, sharing.make, sharing.give)}
            words |= {each.__name__: each for each in (sharing.take, sharing.close)}
            words[line.strip()]()
        except Refused as error:
            said = str(error)
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
