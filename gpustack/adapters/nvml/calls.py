"""The calls into NVML that have not returned yet.

A call may hang in the driver for ever, and no other thread can end it. Its age shows it: the agent
then stops telling systemd that it is alive. Nobody may be in the library when it is closed.
"""

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from gpustack.adapters.nvml.errors import NvmlError

_T = TypeVar("_T")

_DRAIN_SECONDS: Final = 5.0  # longer than any call that doesn't hang


class CallsInFlight:
    """A gate that calls pass one by one; thread-safe.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # guards what follows
        self._since: dict[object, float] = {}
        self._apart = 0  # calls of `ask_apart` that have not returned
        self._shut = ""

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count a call while it lasts.

        Raises:
            NvmlError: the gate is shut.
        """
        call = object()
        with self._changed:
            if self._shut:
                raise NvmlError(self._shut)
            self._since[call] = self._clock()
        try:
            yield
        finally:
            with self._changed:
                del self._since[call]
                self._changed.notify_all()

    def ask_apart(
        self, questions: Sequence[Callable[[], _T]], seconds: float
    ) -> tuple["Future[_T]", ...]:
        """Ask each question in a thread of its own, and wait for all answers for a bounded time.

        A question that hangs then keeps no other from its answer. It has no age, because a new
        process would hang at the same card; the gate can't be shut before it returns.

        Args:
            questions: about one card each.
            seconds: of all together; a future that isn't done by then belongs to one that hangs.
        """
        with self._changed:
            self._apart += len(questions)
        answers = tuple(Future[_T]() for _ in questions)
        for question, answer in zip(questions, answers, strict=True):
            # No pool: the interpreter waits for a pool's threads before it ends.
            threading.Thread(target=self._answer, args=(question, answer), daemon=True).start()
        concurrent.futures.wait(answers, seconds)
        return answers

    def _answer(self, question: Callable[[], _T], answer: "Future[_T]") -> None:
        try:
            answer.set_result(question())
        except Exception as error:  # raised anew where the answer is read
            answer.set_exception(error)
        finally:
            with self._changed:
                self._apart -= 1
                self._changed.notify_all()

    @property
    def oldest_seconds(self) -> float:
        """The age of the oldest call; 0 without one."""
        with self._changed:
            return max((self._clock() - since for since in self._since.values()), default=0.0)

    def shut(self, why: str) -> None:
        """Refuse new calls, and wait until no call is in flight.

        Raises:
            NvmlError: one doesn't return; the gate stays shut.
        """
        with self._changed:
            self._shut = why
            if not self._changed.wait_for(self._is_empty, _DRAIN_SECONDS):
                raise NvmlError(f"{why}; a call has not returned for {_DRAIN_SECONDS:g} s")

    def _is_empty(self) -> bool:
        return not self._since and not self._apart

    def open(self) -> None:
        """Let calls pass again."""
        with self._changed:
            self._shut = ""
