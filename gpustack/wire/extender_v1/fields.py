"""How a body is taken apart: Go's field names in any case, and errors that name the place."""

import dataclasses
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from gpustack.model.errors import GpustackError
from gpustack.wire.kube import managed_fields

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodName:
    """Which pod the scheduler means.

    Attributes:
        namespace: its namespace.
        name: its name.
        uid: its UID.
        value: the pod as the scheduler has it; None where it sends the name only.
    """

    namespace: str
    name: str
    uid: str
    value: msgspec.Raw | None = dataclasses.field(default=None, compare=False, repr=False)


class _PodMetadata(msgspec.Struct):
    name: str
    uid: str
    namespace: str = ""


class _Pod(msgspec.Struct):
    metadata: _PodMetadata


OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
TEXT: Final = msgspec.json.Decoder(str)
RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_POD: Final = msgspec.json.Decoder(_Pod)
_NULL: Final = b"null"
_LONGEST: Final = 253  # of a name in Kubernetes (RFC 1123 subdomain); logs and lists keep them


def read_object(raw: bytes | msgspec.Raw | None, field: str = "") -> Fields:
    """Return the fields of the body, or of the object at ``field`` of it.

    Raises:
        BadBody: missing, or not a JSON object.
    """
    if raw is None:
        raise BadBody(field, "is missing")
    try:
        values = managed_fields.decode(OBJECT, raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(field, f"is not a JSON object: {error}") from error
    return {name.lower(): value for name, value in values.items() if bytes(value) != _NULL}


def read(
    field: str, raw: bytes | msgspec.Raw | None, decoder: "msgspec.json.Decoder[_Decoded]"
) -> _Decoded:
    """Decode the value at ``field``.

    Raises:
        BadBody: it is missing, or has another form; names the place within it.
    """
    if raw is None:
        raise BadBody(field, "is missing")
    try:
        return managed_fields.decode(decoder, raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # msgspec ends with " - at `$.metadata`" unless the value itself is wrong.
        problem, _, place = str(error).partition(" - at `$")
        raise BadBody(field + place.rstrip("`"), problem) from error


def read_name(fields: Mapping[str, msgspec.Raw], field: str) -> str:
    """Return a text that can't be empty; its field is the last part of a path.

    Raises:
        BadBody: it is missing, empty, or no text.
    """
    value = read(field, fields.get(field.rpartition(".")[2].lower()), TEXT)
    check_name(field, value)
    return value


def check_name(field: str, value: str) -> None:
    """Refuse what is no name, UID or namespace by its length.

    Raises:
        BadBody: it is empty, or too long.
    """
    if not value:
        raise BadBody(field, "is empty")
    if len(value) > _LONGEST:
        raise BadBody(field, f"has {len(value)} characters; a name has {_LONGEST} at most")


def read_metadata(raw: msgspec.Raw | None, field: str) -> Fields:
    """Return the fields of the metadata of the object at ``field``.

    Raises:
        BadBody: one of them is missing, or not a JSON object.
    """
    return read_object(read_object(raw, field).get("metadata"), f"{field}.metadata")


def read_pod(fields: Mapping[str, msgspec.Raw]) -> PodName:
    """Return which pod a body's ``Pod`` is.

    Raises:
        BadBody: it, its name or its UID is missing.
    """
    raw = fields.get("pod")
    try:
        found = _POD.decode(raw or b"").metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = _pod_metadata(raw)
    namespace = found.namespace or "default"
    for field, value in (("name", found.name), ("uid", found.uid), ("namespace", namespace)):
        check_name(f"Pod.metadata.{field}", value)
    return PodName(namespace=namespace, name=found.name, uid=found.uid, value=raw)


def _pod_metadata(raw: msgspec.Raw | None) -> _PodMetadata:
    """Read a body that Go spells otherwise, or that has an error to name."""
    metadata = read_metadata(raw, "Pod")
    namespace = metadata.get("namespace")
    return _PodMetadata(
        name=read_name(metadata, "Pod.metadata.name"),
        uid=read_name(metadata, "Pod.metadata.uid"),
        namespace=read("Pod.metadata.namespace", namespace, TEXT) if namespace else "",
    )
