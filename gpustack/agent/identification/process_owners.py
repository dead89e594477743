"""The container of a process on a card, by its cgroup and the runtime's list."""

import pathlib
from collections.abc import Callable

from gpustack.adapters import cgroup
from gpustack.agent.identification.runtime import RuntimeView

Owner = tuple[str, str]
"""A container: its pod's UID, and its name in that."""


class ProcessOwners:
    """Asks the runtime once for a whole round of processes.

    Args:
        runtime: knows the containers by their IDs.
        proc: the proc file system that NVML's PIDs belong to.
    """

    def __init__(self, runtime: RuntimeView, *, proc: pathlib.Path = pathlib.Path("/proc")) -> None:
        self._runtime = runtime
        self._proc = proc

    def now(self) -> Callable[[int], Owner | None]:
        """Return a function from a PID to its container; None for a host process, or none."""
        names = {each.id: (each.pod_uid, each.name) for each in self._runtime.containers() or ()}

        def owner_of(pid: int) -> Owner | None:
            return names.get(cgroup.container_of(pid, proc=self._proc) or "")

        return owner_of
