"""How a body is taken apart: Go's field names in any case, and errors that name the place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from gpustack.model.errors import GpustackError

_Decoded = TypeVar("_Decoded")

Fields = dict[str, msgspec.Raw]
"""An object's values by lower-case name; null is as good as missing."""


class BadBody(GpustackError):
    """A body that isn't what the scheduler sends: the caller's fault (HTTP 400).

    Attributes:
        field: path of the missing or wrong field; empty when the body isn't a JSON object.
        problem: what is wrong with it.
    """

    def __init__(self, field: str, problem: str) -> None:
        self.field: Final = field
        self.problem: Final = problem
        super().__init__(f"{field or 'body'}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodName:
    """Which pod the scheduler means."""

    namespace: str
    name: str
    uid: str


class _PodMetadata(msgspec.Struct):
    name: str
    uid: str
    namespace: str = ""


class _Pod(msgspec.Struct):
    metadata: _PodMetadata


OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
TEXT: Final = msgspec.json.Decoder(str)
_POD: Final = msgspec.json.Decoder(_Pod)
_NULL: Final = b"null"


def read_object(raw: bytes | msgspec.Raw, field: str = "") -> Fields:
    """Return the fields of the body, or of the object at ``field`` of it.

    Raises:
        BadBody: not a JSON object.
    """
    try:
        values = OBJECT.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(field, f"is not a JSON object: {error}") from error
    return {name.lower(): value for name, value in values.items() if bytes(value) != _NULL}


def read(
    field: str, raw: msgspec.Raw | None, decoder: "msgspec.json.Decoder[_Decoded]"
) -> _Decoded:
    """Decode the value at ``field``.

    Raises:
        BadBody: it is missing, or has another form; names the place within it.
    """
    if raw is None:
        raise BadBody(field, "is missing")
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # msgspec ends with " - at `$.metadata`" unless the value itself is wrong.
        problem, _, place = str(error).partition(" - at `$")
        raise BadBody(field + place.rstrip("`"), problem) from error


def read_name(fields: Mapping[str, msgspec.Raw], field: str) -> str:
    """Return a text that can't be empty.

    Raises:
        BadBody: it is missing, empty, or no text.
    """
    value = read(field, fields.get(field.lower()), TEXT)
    if not value:
        raise BadBody(field, "is empty")
    return value


def read_pod(fields: Mapping[str, msgspec.Raw]) -> PodName:
    """Return which pod a body's ``Pod`` is.

    Raises:
        BadBody: it, its name or its UID is missing.
    """
    metadata = read("Pod", fields.get("pod"), _POD).metadata
    for field, value in (("name", metadata.name), ("uid", metadata.uid)):
        if not value:
            raise BadBody(f"Pod.metadata.{field}", "is empty")
    return PodName(namespace=metadata.namespace or "default", name=metadata.name, uid=metadata.uid)
