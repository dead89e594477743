"""Faults on the way to the API server, on request."""

import dataclasses
import re
import threading
from collections.abc import Collection


@dataclasses.dataclass(slots=True, kw_only=True)
class Fault:
    """One rule; the first that matches a request applies, ``times`` times.

    Attributes:
        status: answer with this error instead of carrying the request out; 0: don't.
        drop: ``before`` breaks the connection and carries nothing out, ``after`` carries the
            request out and breaks the connection without an answer.
        gate: wait for this event before anything else.
        parameter: of the query, which a request must have; empty: any request.
    """

    method: str
    pattern: str
    times: int
    status: int = 0
    reason: str = ""
    drop: str = ""
    gate: threading.Event | None = None
    parameter: str = ""
    reached: threading.Event = dataclasses.field(default_factory=threading.Event)

    def release(self) -> None:
        """Let the held requests go on."""
        assert self.gate is not None, "this fault holds nothing"
        self.gate.set()


class Faults:
    """The rules in force, oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Fault] = []

    def fail(
        self,
        method: str,
        pattern: str,
        *,
        status: int,
        reason: str = "InternalError",
        times: int = 1,
    ) -> Fault:
        """Answer matching requests with an error ``Status``."""
        return self._add(
            Fault(method=method, pattern=pattern, times=times, status=status, reason=reason)
        )

    def drop(self, method: str, pattern: str, *, when: str = "before", times: int = 1) -> Fault:
        """Break the connection of matching requests, ``before`` or ``after`` doing them."""
        return self._add(Fault(method=method, pattern=pattern, times=times, drop=when))

    def hold(self, method: str, pattern: str, *, times: int = 1, parameter: str = "") -> Fault:
        """Let matching requests wait until ``fault.release()``; ``fault.reached`` says when."""
        return self._add(
            Fault(
                method=method,
                pattern=pattern,
                times=times,
                gate=threading.Event(),
                parameter=parameter,
            )
        )

    def take(self, method: str, path: str, query: Collection[str] = ()) -> Fault | None:
        """The rule for this request, if any; counts it. ``query``: the parameters' names."""
        with self._lock:
            for rule in self._rules:
                there = not rule.parameter or rule.parameter in query
                matches = rule.method == method and re.search(rule.pattern, path)
                if rule.times and there and matches:
                    rule.times -= 1
                    return rule
        return None

    def release(self) -> None:
        """Open every gate, so that a server that stops leaves no request open."""
        with self._lock:
            for rule in self._rules:
                if rule.gate is not None:
                    rule.gate.set()

    def _add(self, rule: Fault) -> Fault:
        with self._lock:
            self._rules.append(rule)
        return rule
