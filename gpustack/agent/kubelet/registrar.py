"""The registration of both plugins with the kubelet, over its restarts.

A kubelet that starts deletes every socket in its plugin folder, then listens on a new kubelet.sock.
So the registrar looks at the folder twice a second: it makes a missing socket of ours again, and
registers a plugin whenever no ListAndWatch stream is open on it. While one is open it registers
none: the kubelet would drop the new connection when it cleans up after the old one, or, since 1.37,
refuse it. A kubelet that has refused a socket's name once doesn't see its old connection end and
refuses that name until it restarts (k8s.io/kubernetes 1.37 pkg/kubelet/cm/devicemanager
plugin/v1beta1/handler.go connectClient): so the next try is made at another socket.
"""

import logging
import pathlib
import threading
import time
from collections.abc import Callable, Sequence

from gpustack.adapters.deviceplugin import (
    KubeletRefusal,
    KubeletUnavailable,
    PluginServer,
    register,
)

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
# After a stream has ended the kubelet needs a moment to forget the old connection. It is far below
# the 5 s in which we promise to be back.
_SETTLE_SECONDS = 1.0
# After a registration the kubelet opens the stream at once, unless its host is short of CPU; a
# second one would then be refused. A kubelet that restarts meanwhile deletes the socket, and the
# next registration doesn't wait.
_STREAM_SECONDS = 10.0


class _Endpoint:
    """One plugin server, and when it may be registered again (monotonic seconds)."""

    def __init__(self, server: PluginServer) -> None:
        self.server = server
        self.ended = 0  # streams whose end was noticed
        self.not_before = float("-inf")
        self._first, self._sockets = server.socket, 1

    def move(self) -> None:
        """Serve at another socket: `vcore-2.sock` after `vcore.sock`."""
        self._sockets += 1
        self.server.stop()
        self.server.socket = self._first.with_stem(f"{self._first.stem}-{self._sockets}")
        self.server.start()


class Registrar:
    """Serves and registers plugins until told to stop.

    Args:
        servers: the plugins, not started.
        kubelet_socket: the kubelet's registration socket.
        on_kubelet_restart: called when a kubelet other than the last one took a registration.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        servers: Sequence[PluginServer],
        kubelet_socket: pathlib.Path,
        on_kubelet_restart: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoints = tuple(_Endpoint(server) for server in servers)
        self._kubelet_socket = kubelet_socket
        self._on_kubelet_restart = on_kubelet_restart
        self._clock = clock
        self._kubelet: tuple[int, int] | None = None

    @property
    def ready(self) -> bool:
        """True while the kubelet watches every plugin."""
        return all(endpoint.server.streams > 0 for endpoint in self._endpoints)

    def run(self, stop: threading.Event) -> None:
        """Serve, register, and repair, until `stop` is set; then take the sockets away."""
        for endpoint in self._endpoints:
            endpoint.server.start()
        try:
            while not stop.is_set():
                self.look()
                stop.wait(_LOOK_SECONDS)
        finally:
            for endpoint in self._endpoints:
                endpoint.server.stop()

    def look(self) -> None:
        """Compare sockets and streams with the wanted state, and repair them."""
        for endpoint in self._endpoints:
            self._repair_socket(endpoint)
            self._repair_registration(endpoint)

    def _repair_socket(self, endpoint: _Endpoint) -> None:
        if endpoint.server.socket.exists():
            return
        logger.info("plugin socket is gone, making it again socket=%s", endpoint.server.socket)
        endpoint.server.stop()
        endpoint.server.start()
        endpoint.ended = endpoint.server.ended
        endpoint.not_before = float("-inf")

    def _repair_registration(self, endpoint: _Endpoint) -> None:
        if endpoint.server.streams > 0:
            return
        now = self._clock()
        if endpoint.ended < endpoint.server.ended:
            logger.info("kubelet hung up resource=%s", endpoint.server.plugin.resource)
            endpoint.ended = endpoint.server.ended
            endpoint.not_before = now + _SETTLE_SECONDS
        if now < endpoint.not_before or not self._meet_kubelet():
            return
        self._register(endpoint)

    def _meet_kubelet(self) -> bool:
        """Look which kubelet listens now, and report a new one; False when none listens."""
        kubelet = _identity(self._kubelet_socket)
        if kubelet is not None and kubelet != self._kubelet:
            self._kubelet = kubelet
            self._on_kubelet_restart()
        return kubelet is not None

    def _register(self, endpoint: _Endpoint) -> None:
        plugin, wait = endpoint.server.plugin, _SETTLE_SECONDS
        try:
            register(
                kubelet_socket=self._kubelet_socket,
                endpoint=endpoint.server.socket.name,
                plugin=plugin,
            )
        except KubeletUnavailable as error:
            logger.warning("not registered resource=%s error=%s", plugin.resource, error)
            if isinstance(error, KubeletRefusal):
                endpoint.move()
        else:
            self._meet_kubelet()  # it may have restarted since we looked, and taken this call
            wait = _STREAM_SECONDS
            logger.info("registered with kubelet resource=%s", plugin.resource)
        endpoint.not_before = self._clock() + wait


def _identity(path: pathlib.Path) -> tuple[int, int] | None:
    """Return the identity of a socket file; the next one at the path may reuse its inode."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns
