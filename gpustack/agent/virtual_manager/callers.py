"""The container that a process runs in, and its other processes: by the kernel and the runtime."""

import pathlib
import threading
from typing import Final

from gpustack.adapters import cgroup
from gpustack.adapters.cri import RuntimeContainer
from gpustack.agent.identification.runtime import RuntimeView

_PROC: Final = pathlib.Path("/proc")
_CGROUPS: Final = pathlib.Path("/sys/fs/cgroup")


class CallerContainers:
    """Asks the runtime only for a container that it hasn't named yet: an ID never means another.

    A process that ends while its connection lives leaves its PID to another. That is no way to
    another container's files: a socket is one pod's, and the files of a container say the same
    whoever asks.

    Args:
        runtime: knows the containers by their IDs.
        proc: the proc file system that the callers' PIDs belong to.
        cgroups: where cgroups are mounted.
    """

    def __init__(
        self,
        runtime: RuntimeView,
        *,
        proc: pathlib.Path = _PROC,
        cgroups: pathlib.Path = _CGROUPS,
    ) -> None:
        self._runtime = runtime
        self._proc = proc
        self._cgroups = cgroups
        self._lock = threading.Lock()  # guards _known
        self._known: dict[str, RuntimeContainer] = {}

    def container_of(self, pid: int) -> RuntimeContainer | None:
        """Return the container of a process; None where it is in none that the runtime names."""
        found = cgroup.container_of(pid, proc=self._proc)
        if found is None:
            return None
        with self._lock:
            if found not in self._known:
                living = self._runtime.containers()
                if living is None:
                    return None
                self._known = {each.id: each for each in living}
            return self._known.get(found)

    def processes_beside(self, pid: int) -> frozenset[int]:
        """Return the processes of the container of a process."""
        return cgroup.processes_beside(pid, proc=self._proc, cgroups=self._cgroups)
