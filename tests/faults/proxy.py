"""The network between an extender and its API server, in the test's hands."""

import contextlib
import pathlib
import socket
import threading
import time
from collections.abc import Iterator

import yaml

_CHUNK_BYTES = 1 << 16


class Proxy:
    """Forwards TCP connections; slow, cut or deaf when it is told so.

    Attributes:
        delay_seconds: what every piece of a request waits before it goes on.
        refusing: whether new connections are closed at once.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.delay_seconds = 0.0
        self.refusing = False
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection, as a router that was restarted does."""
        with self._lock:
            broken, self._open = self._open, set()
        for each in broken:
            _close(each)

    def close(self) -> None:
        """Listen no more."""
        self.refusing = True
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if self.refusing:
                _close(client)
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                _close(client)
                continue
            with self._lock:
                self._open |= {client, server}
            for one, other, slow in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._forward, args=(one, other, slow), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, slow: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if slow and self.delay_seconds:
                    time.sleep(self.delay_seconds)
                sink.sendall(data)
        for each in (source, sink):
            _close(each)
        with self._lock:
            self._open -= {source, sink}


@contextlib.contextmanager
def before(kubeconfig: pathlib.Path, folder: pathlib.Path) -> Iterator[tuple[Proxy, pathlib.Path]]:
    """Put a proxy before the API server of a kubeconfig; yields it and a kubeconfig through it."""
    values = yaml.safe_load(kubeconfig.read_text())
    cluster = values["clusters"][0]["cluster"]
    host, port = cluster["server"].removeprefix("https://").split(":")
    proxy = Proxy((host, int(port)))
    cluster["server"] = f"https://127.0.0.1:{proxy.port}"
    file = folder / "through-proxy.kubeconfig"
    file.write_text(yaml.safe_dump(values))
    try:
        yield proxy, file
    finally:
        proxy.close()


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
