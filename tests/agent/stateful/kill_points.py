"""The points at which the agent can be killed: around each of its writes, and each of its answers.

A write is a call of the system that changes a file or a folder, or a request that changes a pod.
From the moment of its death a process writes nothing and answers nothing.
"""

import os
import sys
import types
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final

import pytest

import gpustack

# Those that the agent makes on files of its own; os.open counts where it makes or changes a file.
_CALLS: Final = (
    *("open", "pwrite", "fsync", "posix_fallocate", "ftruncate", "fchmod", "chmod"),
    *("rename", "replace", "mkdir", "unlink", "rmdir"),
)
_PRODUCT: Final = f"{os.path.dirname(gpustack.__file__)}{os.sep}"
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


KINDS: Final = 61
"""Points are of one kind by their names, so that rare ones have their turn like the others."""


class Killed(Exception):
    """The agent was killed here. It catches all errors in places; it does nothing afterwards."""


class KillPoints:
    """Counts the points of an agent's life, and kills it at one of them.

    Attributes:
        passed: by point, how often an agent passed it.
        killed: by point, how often one died there.
        step: what the agent is doing, a part of a point's name; empty: nothing.
        dead: whether the agent has been killed.
    """

    passed: ClassVar[Counter[str]] = Counter()
    killed: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        self.step = ""
        self.dead = False
        self._kinds: set[int] = set()
        self._point = ""

    def arm(self, kinds: frozenset[int]) -> None:
        """Kill an agent at the next point of each of these kinds, of which there are `KINDS`."""
        self._kinds |= kinds

    def arm_point(self, point: str) -> None:
        """Kill an agent at the next point of this name."""
        self._point = point

    def disarm(self) -> None:
        self._kinds.clear()
        self._point = ""

    def kill(self) -> None:
        """Kill the agent between two points."""
        self.dead = True

    def revive(self) -> None:
        """Begin the life of the next agent."""
        self.dead = False

    def pass_by(self, place: str) -> None:
        """Let the agent pass a point.

        Raises:
            Killed: it is dead, or dies here.
        """
        if not self.step:
            return
        if self.dead:
            raise Killed(place)
        point = f"{self.step}: {place}"
        self.passed[point] += 1
        kind = zlib.crc32(point.encode()) % KINDS
        if point == self._point or kind in self._kinds:
            self._point = ""
            self._kinds.discard(kind)
            self.killed[point] += 1
            self.dead = True
            raise Killed(point)

    def install(self, patches: pytest.MonkeyPatch) -> None:
        """Watch the writes of the product's code, until the patches are undone."""
        for name in _CALLS:
            patches.setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **names: Any) -> Any:
            reads = name == "open" and not (len(args) > 1 and args[1] & _WRITING)
            place = "" if reads else _place()
            if not place:
                return call(*args, **names)
            self.pass_by(f"{place} before {name}")
            answer = call(*args, **names)
            try:
                self.pass_by(f"{place} after {name}")
            except Killed:
                if name == "open":
                    os.close(answer)  # the kernel does that for a dead process
                raise
            return answer

        return watched


def _place() -> str:
    """Return where in the product's code the call comes from; empty where it doesn't."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_PRODUCT):
            return f"{name.removeprefix(_PRODUCT)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
