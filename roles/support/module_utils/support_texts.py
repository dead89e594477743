"""Reads for a report of a fault, each with bounds, and texts without what others wrote in them."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator
from typing import Any

MARK = "…"
RAW_BYTES = 16 << 20
_PIECE = re.compile(r"([A-Za-z0-9_./@+-]+)")
# The separators that a text keeps between its words.
_OTHER = re.compile(r"[^\s=,:;()\[\]{}'\"<>|*!?%#]+")
# Forms that hold no secret: short numbers, times, versions and addresses, cards.
_SAFE = re.compile(
    r"[./@+_-]*|0000|\d{1,3}(?:\.\d{1,6})?(?:ms|s|h|MB|MiB|GiB|Z)?|v?\d{1,5}(?:\.\d{1,5}){1,3}"
    r"|GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\d(?:T\d\d)?"
)
_COUNTED = re.compile(r"\b(?:bytes|pid|status|code|port|count|cores|lines)=(\d{1,15})\b")
# What systemd, the kernel, TLS and an API server say of our daemons, and no source of ours.
_COMMON = """
Started Starting Stopped Stopping Failed Main process exited code killed dumped status FAILURE
Scheduled restart job counter is at oom-kill signal watchdog Watchdog timeout limit Deactivated
successfully Consumed CPU time Traceback most recent call last File line in module Error Exception
Unauthorized Forbidden Not Found Conflict Too Many Requests Internal Server Gateway x509 certificate
has expired or not yet valid signed by unknown authority verify failed self-signed unable to get
local issuer Connection refused reset by peer No route host Name resolution handshake Permission
denied such file directory space left on device Read-only system Input/output error Broken pipe
Max retries exceeded with url Timed out NVIDIA driver fallen off the bus
"""


class LeftOut(Exception):
    """Something can't be had; the text says why."""


class TooLong(Exception):
    """Something took too long."""


class Texts:
    """The words that free text may have: those of gpustack's own sources, and known names."""

    def __init__(self, names: Iterable[str]) -> None:
        """Begin with the words of others' errors, and names."""
        self._known = {*_COMMON.split(), *names}
        for number in range(1, 134):
            self._known.update(os.strerror(number).split())
        self.own = False

    def learn(self, sources: Iterable[str]) -> None:
        """Add the words of gpustack's sources (paths)."""
        for path in sources:
            text = read(path).decode("utf-8", "replace")
            for form in (r"[A-Za-z_][A-Za-z0-9_./-]*", r"[A-Za-z_]+"):
                self._known.update(word.strip("./") for word in re.findall(form, text))
            self.own = True

    def know(self, names: Iterable[str]) -> None:
        """Add names."""
        self._known.update(names)

    def plain(self, text: str) -> str:
        """Return a text with a mark in the place of each word that isn't known."""
        counted = set(_COUNTED.findall(text))
        kept = [
            (piece if self._is_known(piece, counted) else MARK)
            if at % 2
            else _OTHER.sub(MARK, piece)
            for at, piece in enumerate(_PIECE.split(text))
        ]
        return re.sub(rf"{MARK}(?: *{MARK})+", MARK, "".join(kept))

    def _is_known(self, piece: str, counted: set[str]) -> bool:
        forms = (piece, piece.strip("./"))
        return piece in counted or any(
            form in self._known or _SAFE.fullmatch(form) is not None for form in forms
        )

    def reduced(self, value: Any) -> Any:
        """Return a JSON value, with its texts and names as `plain` leaves them."""
        if isinstance(value, dict):
            return {self.plain(str(key)): self.reduced(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.reduced(each) for each in value]
        return self.plain(value) if isinstance(value, str) else value


def read(path: str) -> bytes:
    """Return a regular file's bytes.

    Raises:
        LeftOut: it is none, or too long.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise LeftOut("is no regular file")
        data = file.read(RAW_BYTES + 1)
    if len(data) > RAW_BYTES:
        raise LeftOut(f"has more than {RAW_BYTES} bytes")
    return data


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """End what takes longer.

    Raises:
        TooLong: it did.
    """

    def end(*_: object) -> None:
        raise TooLong(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(*argv: str) -> str:
    """Return what a program prints, 16 MiB at most.

    Raises:
        LeftOut: there is none, or it failed.
    """
    program = shutil.which(argv[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise LeftOut(f"this host has no {argv[0]}")
    process = subprocess.Popen(
        [program, *argv[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
    )  # fmt: skip
    printed: Any = process.stdout
    try:
        data: bytes = printed.read(RAW_BYTES)
        status = process.wait() if len(data) < RAW_BYTES else 0
    finally:
        # Not waited for: one that the driver holds in the kernel doesn't end.
        process.kill()
    if status:
        raise LeftOut(f"{argv[0]} ended with status {status}")
    return data.decode("utf-8", "replace")


def version(program: str, flag: str) -> str:
    """Return the version that a program says; empty where this host hasn't the program."""
    with contextlib.suppress(LeftOut):
        if found := re.search(r"\bv?(\d{1,4}(?:\.\d{1,4}){0,3})\b", run(program, flag)):
            return found[1]
    return ""


def get(address: str, page: str) -> tuple[int, str]:
    """Return status and text of a page of this host (HOST:PORT), 16 MiB at most."""
    host, _, port = address.rpartition(":")
    with contextlib.closing(http.client.HTTPConnection(host.strip("[]"), int(port))) as connection:
        connection.request("GET", f"/{page}")
        answer = connection.getresponse()
        return answer.status, answer.read(RAW_BYTES).decode("utf-8", "replace")


def stamp(seconds: float) -> str:
    """Return a time (Unix seconds) in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
