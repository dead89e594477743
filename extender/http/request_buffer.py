"""One HTTP request while it arrives: when it is complete, and how much of it is kept.

Bytes only, no socket: the loop feeds what it received, and a thread gets head and body when both
are there. A parser reads what the head means (RFC 9112).
"""

import re
from collections.abc import Callable
from typing import Final

# Of the first line and the headers together; kube-scheduler sends 200 bytes.
HEAD_BYTES: Final = 65_536
# A body that isn't kept is taken and dropped, so that its sender gets to read why; of one that is
# larger than this nothing is taken.
_DROPPED_BYTES: Final = 1 << 28
_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
_DIGITS: Final = 18  # of any length that a machine of today could send
_BOUNDLESS: Final = 10**_DIGITS
# Not the first line after an empty one: without it, the next would be the request's.
_EXPECT: Final = re.compile(
    rb"(?<=[^\r\n])\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE
)


class RequestBuffer:
    """A request, fed byte by byte or all at once.

    Attributes:
        continuable: the sender waits for `100 Continue` before it sends the body.
        refused: the body is dropped as it comes, or not waited for: what follows is no request.
        rest: what came after the request.
        length_bytes: the length of the body as the head has it, or `_BOUNDLESS` for more than that.
    """

    def __init__(self, body_limit_bytes: Callable[[bytes], int | None], begun: bytes = b"") -> None:
        """Begin with nothing, or with what followed the request before on its connection.

        Args:
            body_limit_bytes: of a complete head, the largest body that is kept; None where no body
                is waited for, because the head alone is refused.
            begun: the first bytes.
        """
        self._limit = body_limit_bytes
        self._head = bytearray()
        self._chunks: list[bytes] = []
        self._missing = -1  # bytes of the body that are still to come; -1 while the head is
        self.refused = False
        self.rest = b""
        self._expects = False
        self.length_bytes = 0
        self.continuable = False
        if begun:
            self.take(begun)

    @property
    def begun(self) -> bool:
        """Anything has arrived."""
        return bool(self._head)

    @property
    def complete(self) -> bool:
        """Nothing is to come; more bytes belong to the next request."""
        return self._missing == 0

    @property
    def too_long(self) -> bool:
        """The head has grown beyond its limit and is still without an end."""
        return self._missing < 0 and len(self._head) > HEAD_BYTES

    @property
    def kept_bytes(self) -> int:
        """How much memory it occupies."""
        body = 0 if self.refused or self._missing < 0 else self.length_bytes - self._missing
        return len(self._head) + body + len(self.rest)

    @property
    def head(self) -> bytes:
        """The head with its empty line, as far as it has come."""
        # The loop has sent `100 Continue` to a client that waited for it.
        return _EXPECT.sub(b"", bytes(self._head)) if self._expects else bytes(self._head)

    @property
    def body(self) -> bytes:
        """The body; of one over the limit, an empty one."""
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    def take(self, data: bytes) -> None:
        """Add what was received."""
        if self.complete:
            self.rest += data
            return
        if self._missing < 0:
            data = self._take_head(data)
            if self._missing < 0:
                return
        body, self.rest = data[: self._missing], data[self._missing :]
        self._missing -= len(body)
        if body and not self.refused:
            self._chunks.append(body)

    def _take_head(self, data: bytes) -> bytes:
        """Look for the end of the head; returns what follows it."""
        # The end may begin in what came before.
        overlap = min(len(self._head), len(_END) - 1)
        near = bytes(self._head[len(self._head) - overlap :]) + data if overlap else data
        found = near.find(_END)
        if found < 0:
            self._head += data
            return b""
        end = found + len(_END) - overlap
        self._head += data[:end]
        self._judge_body()
        return data[end:]

    def _judge_body(self) -> None:
        """Find out, by the head alone, how much follows and whether it is kept."""
        # Without a length, or with a bad one, the parser or the application refuses the head alone.
        found = _LENGTH.search(self._head)
        digits = found[1].lstrip(b"0") if found else b""
        self.length_bytes = int(digits or b"0") if len(digits) <= _DIGITS else _BOUNDLESS
        limit = self._limit(bytes(self._head))
        self.refused = self.length_bytes > (limit or 0)
        waits = not self.refused or (limit is not None and self.length_bytes <= _DROPPED_BYTES)
        self._missing = self.length_bytes if waits else 0
        self._expects = bool(_EXPECT.search(self._head))
        self.continuable = self._expects and not self.refused
