"""Another client of the kubelet's PodResources, as a monitoring agent beside ours may be."""

import contextlib
import threading
from collections.abc import Iterator

from gpustack.adapters.podresources import PodResourcesClient
from tests.fakes.kubelet import FakeKubelet

_PERIOD_SECONDS = 0.05  # 20 calls a second


class OtherClient:
    """Asks for all pods again and again; `calls` counts that, refused calls among them."""

    def __init__(self, kubelet: FakeKubelet) -> None:
        self.calls = 0
        self._client = PodResourcesClient(kubelet.root / "pod-resources" / "kubelet.sock")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._client.close()

    def _ask(self) -> None:
        while not self._ended.wait(_PERIOD_SECONDS):
            self.calls += 1
            self._client.list()


@contextlib.contextmanager
def other_client(kubelet: FakeKubelet) -> Iterator[OtherClient]:
    """Let it ask meanwhile."""
    client = OtherClient(kubelet)
    try:
        yield client
    finally:
        client.stop()
