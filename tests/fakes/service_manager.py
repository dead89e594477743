"""systemd's side of a service's descriptor store, on a real socket."""

import os
import pathlib
import socket
import threading
from types import TracebackType
from typing import Final

from gpustack.adapters.systemd import DescriptorStore

_SECONDS: Final = 10.0  # after this long a test counts as hung
_LONGEST: Final = 4096  # bytes of a message
_END: Final = b"END"  # no message of systemd's protocol


class FakeServiceManager:
    """Keeps descriptors by name, as FDSTORE and FDSTOREREMOVE in sd_notify(3) say.

    Args:
        address: path of its socket.
        most: FileDescriptorStoreMax of the unit; what is beyond it is closed.
    """

    def __init__(self, address: pathlib.Path, *, most: int = 1000) -> None:
        self.address = str(address)
        self._most = most
        self._stored: dict[str, list[int]] = {}
        self._changed = threading.Condition()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "FakeServiceManager":
        self._socket.bind(self.address)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(_END, self.address)
        self._thread.join(_SECONDS)
        self._socket.close()
        for name in tuple(self._stored):
            self._remove(name)

    def start_service(self) -> DescriptorStore:
        """Return what the next start of the service gets."""
        with self._changed:
            received = tuple(os.dup(each) for stored in self._stored.values() for each in stored)
        return DescriptorStore(self.address, received)

    def wait_for(self, count: int) -> frozenset[str]:
        """Wait until this many descriptors are stored; return their names."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: self._count() == count, _SECONDS)
            assert arrived, f"{self._count()} descriptors are stored: {self._stored}"
            return frozenset(self._stored)

    def _count(self) -> int:
        return sum(map(len, self._stored.values()))

    def _serve(self) -> None:
        while True:
            text, descriptors, _, _ = socket.recv_fds(self._socket, _LONGEST, 253)
            if text == _END:
                return
            fields = dict(line.split("=", 1) for line in text.decode().splitlines())
            with self._changed:
                if fields.get("FDSTOREREMOVE") == "1":
                    self._remove(fields["FDNAME"])
                elif fields.get("FDSTORE") == "1":
                    self._add(fields.get("FDNAME", "stored"), descriptors)
                self._changed.notify_all()

    def _add(self, name: str, descriptors: list[int]) -> None:
        for descriptor in descriptors:
            if self._count() < self._most:
                self._stored.setdefault(name, []).append(descriptor)
            else:
                os.close(descriptor)

    def _remove(self, name: str) -> None:
        for descriptor in self._stored.pop(name, ()):
            os.close(descriptor)
