"""The envelope around objects: pages of a list, events of a watch. The objects stay bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import msgspec

from gpustack.adapters.kube.errors import KubeError, KubeUnavailable
from gpustack.wire.kube import managed_fields

_Decoded = TypeVar("_Decoded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a list.

    Attributes:
        items: the objects as they came.
        version: ``resourceVersion`` that the list is true at.
        following: the continue token of the next page; empty on the last one.
    """

    items: Sequence[msgspec.Raw]
    version: str
    following: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One event of a watch: ``kind`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    kind: str
    raw: msgspec.Raw


class _ListMetadata(msgspec.Struct):
    # The API's name; the server counts them, as its readers do.
    resourceVersion: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,20}\Z")]  # noqa: N815
    following: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Object(msgspec.Struct):
    metadata: _ListMetadata


class ApiStatus(msgspec.Struct):
    """The fields of a ``Status`` object."""

    code: int = 0
    reason: str = ""
    message: str = ""


_LIST: Final = msgspec.json.Decoder(_List)
_EVENT: Final = msgspec.json.Decoder(_Event)
_OBJECT: Final = msgspec.json.Decoder(_Object)
_ANY: Final = msgspec.json.Decoder(dict[str, Any])
_STATUS: Final = msgspec.json.Decoder(ApiStatus)


def decode_page(raw: bytes) -> Page:
    """Read one page.

    Raises:
        KubeUnavailable: it isn't one; a proxy or balancer in between answered.
    """
    found = _decode(_LIST, raw)
    return Page(
        items=found.items or (),
        version=found.metadata.resourceVersion,
        following=found.metadata.following,
    )


def decode_change(line: bytes) -> WatchEvent:
    """Read one line of a watch; errors as in ``decode_page``."""
    found = _decode(_EVENT, line)
    return WatchEvent(kind=found.type, raw=found.object)


def decode_object(raw: bytes) -> dict[str, Any]:
    """Read an answer that is one object, as plain values; errors as in ``decode_page``."""
    found = _decode(_ANY, raw)
    if "kind" not in found:
        raise KubeUnavailable("the answer is not the API's: it has no kind")
    return found


def decode_status(raw: msgspec.Raw) -> ApiStatus:
    """Read the object of an ERROR event; errors as in ``decode_page``."""
    return _decode(_STATUS, raw)


def decode_refusal(status: int, raw: bytes) -> KubeError:
    """Read the ``Status`` object of an error; proxies answer with plain text."""
    try:
        answer = decode_object(raw)
    except KubeUnavailable:
        return KubeError(status, "", raw[:500].decode(errors="replace").strip())
    return KubeError(status, str(answer.get("reason") or ""), str(answer.get("message") or ""))


def version_of(raw: msgspec.Raw) -> str:
    """Return an object's ``resourceVersion``; errors as in ``decode_page``."""
    return _decode(_OBJECT, raw).metadata.resourceVersion


def _decode(decoder: "msgspec.json.Decoder[_Decoded]", raw: bytes | msgspec.Raw) -> _Decoded:
    try:
        return managed_fields.decode(decoder, raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise KubeUnavailable(f"the answer is not the API's: {error}") from error
