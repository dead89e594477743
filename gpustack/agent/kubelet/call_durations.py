"""How long the kubelet waits for the answers of its calls."""

import bisect
import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

# Seconds: around the 20 ms that an answer may take, up to the waits that Allocate bounds.
BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclasses.dataclass(slots=True)
class Durations:
    """All calls of one kind: how many took at most each bound, or longer, and how long in all."""

    counts: list[int] = dataclasses.field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0


class CallDurations:
    """Counts calls by method and resource, refused ones among them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], Durations] = {}

    @contextlib.contextmanager
    def measured(self, method: str, resource: str) -> Iterator[None]:
        """Count a call, and the time that it takes."""
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            with self._lock:
                calls = self._calls.setdefault((method, resource), Durations())
                calls.counts[bisect.bisect_left(BOUNDS, took)] += 1
                calls.seconds += took

    def read(self) -> Mapping[tuple[str, str], Durations]:
        """Return the counts by method and resource."""
        with self._lock:
            return {
                key: Durations(list(calls.counts), calls.seconds)
                for key, calls in self._calls.items()
            }
