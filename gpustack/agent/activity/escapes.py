"""Ways out of a share that the host can see: reported, once a container.

The dynamic linker goes on without a library that it can't preload, and some programs never ask it:
static ones, those of another libc, those that a tenant has started by hand. They use the card, and
their memory maps lack the hook.
"""

import logging
import pathlib
from collections.abc import Callable
from typing import Final

from gpustack.adapters.kube import ObjectEvent
from gpustack.agent.activity.shares import Share

logger = logging.getLogger(__name__)

_HOOK: Final = "libvcuda.so"

UNHOOKED: Final = "UnhookedProcess"
DAMAGED: Final = "LedgerDamaged"


class Escapes:
    """Says what it finds: a warning in the log, an Event on the pod, and a number.

    Args:
        tell: takes the Event.
        hooks: where the hooks of all versions lie, a folder for each.
        proc: the proc file system of the host.
    """

    def __init__(
        self,
        tell: Callable[[ObjectEvent], None],
        *,
        hooks: pathlib.Path,
        proc: pathlib.Path = pathlib.Path("/proc"),
    ) -> None:
        self._tell = tell
        self._hooks = hooks
        self._proc = proc
        self._said: set[tuple[Share, str]] = set()
        self.unhooked = 0
        self.damaged = 0

    def look_at(self, share: Share, pids: tuple[int, ...]) -> None:
        """Report a container's processes on a card that don't map the hook."""
        ours = {str(path.stat().st_ino) for path in self._hooks.glob(f"*/{_HOOK}")}
        loose = [pid for pid in pids if self._is_loose(pid, ours)]
        if loose and self._is_news(share, UNHOOKED):
            self.unhooked += 1
            names = ", ".join(f"{self._name(pid)} (host PID {pid})" for pid in loose)
            self._report(
                share,
                UNHOOKED,
                f"container {share.owner[1]}: {names} uses the GPU without libvcuda.so: its memory"
                " counts against the share, its launches are not held back",
            )

    def ledger_is_damaged(self, share: Share, why: str) -> None:
        """Report a ledger that can't be read: its container wrote over it or cut it off."""
        if self._is_news(share, DAMAGED):
            self.damaged += 1
            self._report(
                share,
                DAMAGED,
                f"container {share.owner[1]}: its ledger can't be read ({why}): all memory that"
                " the driver sees counts against its share",
            )

    def forget(self, living: frozenset[Share]) -> None:
        """Drop the containers that are gone."""
        self._said = {said for said in self._said if said[0] in living}

    def _is_news(self, share: Share, what: str) -> bool:
        known = (share, what) in self._said
        self._said.add((share, what))
        return not known

    def _report(self, share: Share, reason: str, message: str) -> None:
        logger.warning("%s pod=%s/%s: %s", reason, share.namespace, share.pod, message)
        self._tell(
            ObjectEvent(
                namespace=share.namespace,
                name=share.pod,
                uid=share.owner[0],
                reason=reason,
                message=message,
                warning=True,
                topic=f"{reason}/{share.owner[1]}",
            )
        )

    def _is_loose(self, pid: int, ours: set[str]) -> bool:
        """Say whether a process maps none of our files: a name alone proves nothing."""
        try:
            maps = (self._proc / str(pid) / "maps").read_text(errors="replace")
        except OSError:
            return False  # it has ended
        # A process that is just ending has no maps any more.
        mapped = (line.split(maxsplit=5) for line in maps.splitlines())
        inodes = {line[4] for line in mapped if len(line) == 6 and line[5].endswith(f"/{_HOOK}")}
        return bool(maps) and ours.isdisjoint(inodes)

    def _name(self, pid: int) -> str:
        try:
            return (self._proc / str(pid) / "comm").read_text(errors="replace").strip()
        except OSError:
            return "a process"
