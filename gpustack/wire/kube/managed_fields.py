"""Reading an object of the API whatever stands in its `metadata.managedFields`.

There the API server notes which client set which field, and it takes the note from the client: any
user that may create or change an object may nest it 10 000 deep, or write what is no UTF-8 (tried
with 1.34). Other fields of the objects that we read have a form, and the server checks it. None of
ours reads the note, and none may be ended by it.
"""

import re
from typing import Any, Final, TypeVar

import msgspec

_Decoded = TypeVar("_Decoded")

_BEGINNING: Final = re.compile(rb'"managedFields"[ \t\r\n]*:[ \t\r\n]*\[')
_BRACKET: Final = re.compile(
    rb'(?:[^"\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]])', re.DOTALL
)  # the next one outside of a text; nothing is looked at twice


def decode(
    decoder: "msgspec.json.Decoder[_Decoded]", raw: bytes | msgspec.Raw | memoryview
) -> _Decoded:
    """Decode an object, or several in one text, without `managedFields` where those can't be read.

    Raises:
        msgspec.DecodeError: another part is no JSON, or of another form.
        UnicodeDecodeError: another part is no UTF-8.
        RecursionError: another part is nested too deeply.
    """
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decoder.decode(without(bytes(raw)))


def without(raw: bytes) -> bytes:
    """Return JSON with every `managedFields` empty."""
    view, at = memoryview(raw), 0  # a page of a list has megabytes
    kept: list[bytes | memoryview] = []
    while (found := _BEGINNING.search(raw, at)) is not None:
        begun = found.end()
        kept.append(view[at:begun])
        at = begun
        if raw[found.start() - 1 : found.start()] != b"\\":  # else it stands within a text
            kept.append(b"]")
            at = _end(raw, begun)
    return b"".join((*kept, view[at:]))


def _end(raw: bytes, at: int) -> int:
    """Return where the array ends whose first bracket stands before `at`."""
    open_ones = 1
    while open_ones:
        bracket: Any = _BRACKET.match(raw, at)
        if bracket is None:
            return len(raw)
        at = bracket.end()
        open_ones += 1 if bracket[1] == b"[" else -1
    return at
