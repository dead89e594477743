"""The container of a process on a card, by its cgroup and the runtime's list."""

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Final

from gpustack.adapters import cgroup, process
from gpustack.adapters.process import Identity
from gpustack.agent.identification.runtime import RuntimeView

Owner = tuple[str, str]
"""A container: its pod's UID, and its name in that."""

HIDDEN: Final[Owner] = ("", cgroup.HIDDEN)
"""In a container's place where nothing says whose a process is; a host's own processes say it."""

# Between questions without a new container: that the runtime answers is the agent's readiness.
_ASK_SECONDS: Final = 5.0
_FORGET_SECONDS: Final = 60.0  # after the last look at a process: one comes every second


@dataclasses.dataclass(slots=True)
class _Process:
    """A process: its container's ID, empty on the host, and when it was asked for last."""

    identity: Identity | None
    container: str
    asked: float


class ProcessOwners:
    """Remembers the containers of processes, and asks the runtime about new ones.

    No runtime gives an ID to a second container, so a container's pod and name stay known while one
    of its processes is.

    Args:
        runtime: knows the containers by their IDs.
        proc: the proc file system that NVML's PIDs belong to.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        runtime: RuntimeView,
        *,
        proc: pathlib.Path = pathlib.Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._proc = proc
        self._clock = clock
        # Several threads read; what two of them find at the same time is the same.
        self._processes: dict[int, _Process] = {}
        self._names: dict[str, Owner] = {}
        self._strange: frozenset[str] = frozenset()  # IDs that the runtime didn't list last
        self._ask_at = float("-inf")

    def now(self) -> Callable[[int], Owner | None]:
        """Return a function from a PID to its container, or `HIDDEN`; None for a host process.

        It asks the runtime about new containers, once at most.
        """
        self._forget()
        asked = self._clock() >= self._ask_at
        if asked:
            self._ask()

        def owner_of(pid: int) -> Owner | None:
            nonlocal asked
            container = self._container_of(pid)
            if container == cgroup.HIDDEN:
                return HIDDEN
            is_new = container and container not in self._names and container not in self._strange
            if is_new and not asked:
                asked = True
                self._ask()
            return self._names.get(container)

        return owner_of

    def identity(self, pid: int) -> Identity | None:
        """Return a process's identity as `now`'s function found it last, or as it is."""
        known = self._processes.get(pid)
        return process.identity(pid, proc=self._proc) if known is None else known.identity

    def has_ended(self, pid: int) -> bool:
        """Say whether the process that `now`'s function was asked about has ended.

        A zombie has, and so has one whose PID another process has got since.
        """
        lives = process.has_memory(pid, proc=self._proc) and process.is_same(
            self.identity(pid), process.identity(pid, proc=self._proc)
        )
        return not lives

    def _container_of(self, pid: int) -> str:
        identity, known = process.identity(pid, proc=self._proc), self._processes.get(pid)
        if known is None or identity is None or known.identity != identity:
            container = cgroup.container_of(pid, proc=self._proc) or ""
            known = self._processes[pid] = _Process(identity, container, 0.0)
        known.asked = self._clock()
        return known.container

    def _ask(self) -> None:
        self._ask_at = self._clock() + _ASK_SECONDS
        containers = self._runtime.containers()
        if containers is None:
            return
        used = {each.container for each in tuple(self._processes.values())}
        kept = {name: owner for name, owner in self._names.items() if name in used}
        self._names = {**kept, **{each.id: (each.pod_uid, each.name) for each in containers}}
        self._strange = frozenset(used - self._names.keys())

    def _forget(self) -> None:
        oldest = self._clock() - _FORGET_SECONDS
        for pid, each in tuple(self._processes.items()):
            if each.asked < oldest:
                self._processes.pop(pid, None)
