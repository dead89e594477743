"""Ways out of a share that the host can see: reported, once a container.

The dynamic linker goes on without a library that it can't preload, and some programs never use it:
static ones, those of another libc, those that a tenant has started by hand. They use the card, and
their memory maps lack the hook. Root in a container can move away the folder in which its limits,
activity page and ledger are mounted, and put files of its own there: the maps lack the real ones.
"""

import functools
import logging
import pathlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gpustack.adapters import memory_maps, process
from gpustack.adapters.kube import ObjectEvent
from gpustack.adapters.memory_maps import MappedFile
from gpustack.adapters.process import Identity
from gpustack.agent.activity.shares import Share
from gpustack.agent.identification.process_owners import Owner
from gpustack.agent.violations.maps_reader import (
    NOTHING_SEEN,
    MapsBusyError,
    MapsReader,
    SeenProcesses,
)
from gpustack.agent.violations.reactions import FOREIGN, UNHOOKED, Reactions
from gpustack.agent.violations.reports import ViolationReports
from gpustack.agent.violations.standing import StandingViolations
from gpustack.wire.one_line import one_line

logger = logging.getLogger(__name__)

_HOOK: Final = "libvcuda.so"
_LONGEST_NAME: Final = 64  # the kernel keeps 15 bytes (TASK_COMM_LEN), and each may be escaped
_OWN_FILES: Final = ("limits", "activity", "ledger")
# Time that one container may take of a look: of CPU, and of waiting for maps that don't come. A
# hundred processes with a thousand mappings each take as long; one process with the most mappings
# that the kernel allows takes half of that.
_LOOK_SECONDS: Final = 0.1
_MOST_BUSY: Final = 4  # of a container's processes that are waited for; its others come later
# After which no other container's turn begins; it comes first at the next look, a second later.
# Bursts end within 200 ms: meanwhile no neighbour's wish is looked for.
_LOOKS_SECONDS: Final = 0.05
# A process that maps our files is looked at again when it runs another program, and within this
# time: it may unmap them. The maps of 90 processes with 2 500 mappings take 0.3 s.
_AGAIN_SECONDS: Final = 120.0
_WORDS: Final = {
    UNHOOKED: "uses the GPU without libvcuda.so: its memory counts against the share, its launches"
    " are not held back",
    FOREIGN: "uses the GPU and doesn't map the limits, the activity page and the ledger of its"
    " container: other files lie in /etc/vcuda, or the hook was gone round; its share may not hold"
    " until they are left alone and the container starts anew",
}


class IsolationViolations(ViolationReports):
    """Finds processes that go past the hook, and takes the reports of all other violations.

    Args:
        tell: takes the Event.
        reactions: act on what stands; left out: bursts end.
        standing: shows what stands.
        hooks: where the hooks of all versions lie, a folder for each.
        proc: the proc file system of the host.
        identity: tells processes apart, by host PID; None: it has ended. Left out: by `proc`.
        clock: the time that looks have taken, in seconds; left out: CPU time, and that of waiting.
        now: monotonic seconds.
    """

    def __init__(
        self,
        tell: Callable[[ObjectEvent], None],
        *,
        reactions: Reactions | None = None,
        standing: StandingViolations | None = None,
        hooks: pathlib.Path,
        proc: pathlib.Path = pathlib.Path("/proc"),
        identity: Callable[[int], Identity | None] | None = None,
        clock: Callable[[], float] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(tell, reactions or Reactions(), standing or StandingViolations())
        self._identity = identity or functools.partial(process.identity, proc=proc)
        self._maps = MapsReader((_HOOK, *_OWN_FILES), proc)
        self._clock = clock or (lambda: time.thread_time() + self._maps.seconds)
        self._now = now
        self._next: Owner | None = None  # the container that the last look had no time for
        self._hooks = hooks
        self._proc = proc
        self._seen: dict[Owner, SeenProcesses] = {}

    def look(self, sights: Sequence[tuple[Share, tuple[int, ...]]]) -> None:
        """Look at the processes of many containers, as far as the time for that allows."""
        busy = [(share, pids) for share, pids in sights if pids]
        owners = [share.owner for share, _ in busy]
        for owner in self._seen.keys() & {share.owner for share, _ in sights}.difference(owners):
            del self._seen[owner]
        first = owners.index(self._next) if self._next in owners else 0
        self._next, until = None, self._clock() + _LOOKS_SECONDS
        for share, pids in (*busy[first:], *busy[:first]):
            if self._clock() > until:
                self._next = share.owner
                break
            self.look_at(share, pids)

    def look_at(self, share: Share, pids: tuple[int, ...]) -> None:
        """Report a container's processes on a card that don't map the hook, or not its files."""
        before = self._seen.pop(share.owner, NOTHING_SEEN)
        reported = {
            pid: known
            for pid in pids
            if (known := before.reported.get(pid)) and known[0] == self._identity(pid)
        }
        good = self._still_good(before, pids)
        others = frozenset(pids).difference(reported, good)
        identities = {pid: self._identity(pid) for pid in others}
        fresh, tried = self._look(share, others, before.looked)
        looked, passed = others & before.looked.union(tried), others.difference(fresh)
        maps = {pid: files for pid, files in fresh.items() if files is not None}
        hooks = _files(self._hooks.glob(f"*/{_HOOK}")) if maps else frozenset()
        own = _files(share.folder / name for name in _OWN_FILES) if maps else frozenset()
        loose = frozenset(pid for pid, files in maps.items() if hooks.isdisjoint(files))
        # The driver may know a process whose first call into the hook still runs; a process that
        # lacks the files at two looks in a row never opened them.
        strange = frozenset(pid for pid, files in maps.items() if not own <= files) - loose
        foreign = strange & before.strange
        good.update(self._found_good(maps.keys() - loose - strange, identities))
        found = {pid: (identities[pid], UNHOOKED) for pid in loose}
        found |= {pid: (identities[pid], FOREIGN) for pid in foreign}
        asked_later = {pid: before.reported[pid] for pid in passed & before.reported.keys()}
        self._seen[share.owner] = SeenProcesses(
            reported=asked_later | reported | found,
            strange=strange | (before.strange & passed),
            looked=frozenset() if others == looked else looked,
            good=good,
        )
        self._report_all(share, found, acts=False)
        # The driver has shown the PID while this process had it: it was there at both looks.
        lasting = {
            pid: known
            for pid, known in (reported | found).items()
            if process.is_same(known[0], before.reported.get(pid, (None,))[0])
        }
        self._report_all(share, lasting, acts=True)

    def _still_good(
        self, before: SeenProcesses, pids: Iterable[int]
    ) -> dict[int, tuple[Identity, float]]:
        now, found = self._now(), {}
        for pid in pids:
            known = before.good.get(pid)
            if known is not None and now < known[1] and known[0] == self._identity(pid):
                found[pid] = known
        return found

    def _found_good(
        self, pids: Iterable[int], identities: Mapping[int, Identity | None]
    ) -> Iterator[tuple[int, tuple[Identity, float]]]:
        now = self._now()
        for pid in pids:
            identity = identities[pid]
            if identity is not None:
                # Not all of a start's processes at once.
                yield pid, (identity, now + _AGAIN_SECONDS * (0.5 + pid % 64 / 128))

    def forget(self, living: frozenset[Owner]) -> None:
        """Drop the containers that are gone."""
        super().forget(living)
        self._seen = {owner: seen for owner, seen in self._seen.items() if owner in living}

    def _report_all(
        self, share: Share, found: Mapping[int, tuple[Identity | None, str]], *, acts: bool
    ) -> None:
        for reason, words in _WORDS.items():
            pids = [pid for pid, known in found.items() if known[1] == reason]
            if pids:
                self.report(share, reason, f"{self._names(pids)} {words}", acts=acts)

    def _look(
        self, share: Share, pids: Collection[int], last: Collection[int]
    ) -> tuple[dict[int, frozenset[MappedFile] | None], set[int]]:
        """Return the mappings of as many processes as a container's time allows.

        And all that were tried: those whose maps don't come take their turn with the others.
        """
        found: dict[int, frozenset[MappedFile] | None] = {}
        tried: set[int] = set()
        busy, until = 0, self._clock() + _LOOK_SECONDS
        for pid in sorted(pids, key=lambda pid: (pid in last, pid)):
            tried.add(pid)
            try:
                found[pid] = self._mapped(pid, share.owner)
            except MapsBusyError as error:
                busy += 1
                if self.is_news(share, "busy maps"):
                    logger.warning("not looked at for now share=%s: %s", share.full_name, error)
            if busy == _MOST_BUSY or self._clock() > until:
                break
        return found, tried

    def _mapped(self, pid: int, owner: Owner) -> frozenset[MappedFile] | None:
        return self._maps.of(pid, owner)

    def _names(self, pids: Iterable[int]) -> str:
        return ", ".join(f"{self._name(pid)} (host PID {pid})" for pid in sorted(pids))

    def _name(self, pid: int) -> str:
        try:
            comm = (self._proc / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
            return one_line(comm, _LONGEST_NAME)
        except OSError:
            return "a process"


def _files(paths: Iterable[pathlib.Path]) -> frozenset[MappedFile]:
    """Return files as maps name them, without those that aren't there."""
    return frozenset(file for path in paths if (file := memory_maps.of_file(path)) is not None)
