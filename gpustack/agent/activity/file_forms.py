"""The form of containers' files, restored in threads of their own.

The kernel keeps a change of a file waiting while its tenant's write to it is under way (inode
lock), and a tenant chooses how long that takes. Neither samples and bursts nor the files of other
containers wait for it: a thread that waits is left behind, and another goes on.
"""

import itertools
import pathlib
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

from gpustack.agent.activity.shares import Share
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.violations.isolation_violations import IsolationViolations

# Longer than a look at 512 containers takes; a burst ends within 200 ms all the same.
_WAIT_SECONDS: Final = 0.1
# Only a tenant keeps one container's files waiting for so long.
_LEFT_BEHIND_NS: Final = 500_000_000
# Looks, and not time: the agent may have been stopped meanwhile.
_REPORT_LOOKS: Final = 10

_Changes = Mapping[str, str]


class FileForms:
    """Restores the form of files, as they are due, and reports what tenants had changed.

    At most one thread waits for each container.

    Args:
        held: the files.
        reports: takes the changes.
        clock_ns: CLOCK_MONOTONIC.
    """

    def __init__(
        self, held: HeldFiles, reports: IsolationViolations, clock_ns: Callable[[], int]
    ) -> None:
        self._held = held
        self._reports = reports
        self._clock_ns = clock_ns
        self._lock = threading.Lock()  # guards all below
        self._ended = threading.Event()  # of the thread that goes on
        self._ended.set()
        self._begun_ns: dict[pathlib.Path, int] = {}  # by folder that a thread is at
        self._waits: dict[tuple[pathlib.Path, int], int] = {}  # looks, by folder and its time
        self._at_ns = 0  # when the thread that goes on came to its present folder
        self._numbers = itertools.count(1)
        self._done: dict[pathlib.Path, int] = {}  # by folder, the number of its last turn
        self._found: dict[pathlib.Path, _Changes] = {}
        self._failure: Exception | None = None

    def look(self, shares: Collection[Share]) -> None:
        """Begin a look unless one is under way, and report what was found since the last call.

        Args:
            shares: all that may run; the files of others are restored, too, and not reported.
        """
        held = self._held.look([share.folder for share in shares])
        with self._lock:
            if self._ended.is_set() or self._clock_ns() >= self._at_ns + _LEFT_BEHIND_NS:
                self._begin(held)
            ended = self._ended
        ended.wait(_WAIT_SECONDS)
        with self._lock:
            if self._failure is not None:
                raise self._failure
            found, self._found = self._found, {}
            turns = self._begun_ns.items()
            self._waits = {turn: self._waits.get(turn, 0) + 1 for turn in turns}
            kept = {folder for (folder, _), looks in self._waits.items() if looks >= _REPORT_LOOKS}
        for share in shares:
            for what, how in found.get(share.folder, {}).items():
                self._reports.form_was_changed(share, what, how)
            if share.folder in kept:
                self._reports.form_is_kept(share)

    def _begin(self, held: Mapping[pathlib.Path, bool]) -> None:
        self._done = {each: self._done.get(each, 0) for each in held}
        wanted = {each for each, is_due in held.items() if is_due} - self._begun_ns.keys()
        self._ended = threading.Event()  # a thread that waits is left behind
        if not wanted:
            self._ended.set()
            return
        # Tenants that keep a thread waiting at each turn come after all who have waited longer.
        due = sorted(wanted, key=lambda each: self._done[each])
        self._at_ns = self._clock_ns()
        threading.Thread(
            target=self._run, args=(due, self._ended), name="file-forms", daemon=True
        ).start()

    def _run(self, due: Collection[pathlib.Path], ended: threading.Event) -> None:
        try:
            for folder in due:
                with self._lock:
                    if self._ended is not ended:
                        return  # left behind
                    self._at_ns = self._begun_ns[folder] = self._clock_ns()
                self._restore(folder)
        except Exception as error:
            # The boundary of a thread: the next look fails with it.
            with self._lock:
                self._failure = error
        finally:
            ended.set()

    def _restore(self, folder: pathlib.Path) -> None:
        changes: _Changes = {}
        try:
            changes = self._held.restore(folder)
        finally:
            with self._lock:
                del self._begun_ns[folder]
                self._done[folder] = next(self._numbers)
                if changes:
                    self._found[folder] = {**self._found.get(folder, {}), **changes}
