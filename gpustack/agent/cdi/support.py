"""Whether the kubelet and the runtime of this node pass CDI devices on, by what both say.

The kubelet takes them from device plugins since 1.29: its gate DevicePluginCDIDevices was off in
1.28, is on since 1.29 and can't be off since 1.31 (KEP-4009). One with the gate off, or an older
one, drops the names and starts the container without its devices.
"""

import logging
import pathlib
import re
import threading
import time
from collections.abc import Callable
from typing import Final

from gpustack.adapters.cri import CriClient, CriUnavailable, why_no_cdi
from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable
from gpustack.model.errors import GpustackError
from gpustack.wire.quoting import quoted

logger = logging.getLogger(__name__)

_OLDEST_KUBELET: Final = (1, 29)
_NUMBERS: Final = re.compile(r"v([0-9]{1,9})\.([0-9]{1,9})\.")
_API_SECONDS: Final = 2.0  # an Allocate may be waiting
# A kubelet or a runtime that is replaced restarts; the kubelet's restart is noticed at once.
_AGAIN_SECONDS: Final = 60.0
# A kubelet that has just started may not have written its version yet.
_SOON_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 2.0


class CdiError(GpustackError):
    """A container can't get its devices by CDI; says what to do."""


class CdiUnsupported(CdiError):
    """The kubelet or the runtime has said that it doesn't pass CDI devices on."""


class CdiSupport:
    """What kubelet and runtime have said, asked again from time to time.

    Args:
        client: the API server, which has the kubelet's version.
        node_name: the host's name in Kubernetes.
        runtime: the container runtime.
        folder: where the spec lies.
        kubelet_restarts: counts them; what is known of a kubelet ends with it.
        clock: monotonic seconds.

    Attributes:
        problem: why it isn't known that both do; empty when it is.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        node_name: str,
        runtime: CriClient,
        folder: pathlib.Path,
        kubelet_restarts: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._runtime = runtime
        self._folder = folder
        self._kubelet_restarts = kubelet_restarts
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_of = self._known_of = -1  # the kubelet's restarts at the last question, answer
        self._due = float("-inf")
        self.problem = "not asked yet"

    def require(self) -> None:
        """Ask both, if it is time to.

        Raises:
            CdiUnsupported: one of them doesn't.
            CdiError: one of them doesn't answer, and it isn't known from before.
        """
        self.look()
        if self.problem:
            raise CdiError(self.problem)

    def look(self) -> None:
        """Do so without an error for a missing answer.

        Raises:
            CdiUnsupported: as above.
        """
        with self._lock:
            restarts = self._kubelet_restarts()
            if self._asked_of == restarts and self._clock() < self._due:
                return
            self._asked_of, is_known = restarts, self._known_of == restarts
            try:
                refusal = self._of_kubelet() or self._of_runtime()
            except (KubeError, KubeUnavailable, CriUnavailable) as error:
                self._due = self._clock() + _RETRY_SECONDS
                if not is_known:
                    self._tell(f"not known whether kubelet and runtime take CDI devices: {error}")
                return
            self._due = self._clock() + (_AGAIN_SECONDS if is_known else _SOON_SECONDS)
            self._known_of, self.problem = restarts, refusal
            if refusal:
                raise CdiUnsupported(refusal)

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem

    def _of_kubelet(self) -> str:
        path = f"/api/v1/nodes/{self._node_name}"
        node = self._client.get(path, timeout_seconds=_API_SECONDS)
        version = ((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or ""
        numbers = _NUMBERS.match(version)
        if numbers is None:
            raise KubeUnavailable(f"{path}: status.nodeInfo.kubeletVersion is {quoted(version)}")
        if tuple(map(int, numbers.groups())) >= _OLDEST_KUBELET:
            return ""
        return f"the kubelet is {version}, and passes CDI devices on since 1.29; upgrade it"

    def _of_runtime(self) -> str:
        version, config = self._runtime.version(), self._runtime.config()
        return why_no_cdi(version, config, self._folder)
