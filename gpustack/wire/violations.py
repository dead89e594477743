"""What a node's agent finds its containers doing against their limits, as the node carries it.

An annotation of its own: one that can't be read leaves the node's cards as they are, and one that
changes costs no decision anything. A node writes it itself, so its size is bounded before it is
parsed, each text in it has a narrow form, and it says something only of pods bound to that node.
"""

import datetime
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec

from gpustack.model.errors import GpustackError
from gpustack.wire.annotations import annotations_of
from gpustack.wire.keys import Keys

VERSION: Final = 1

MOST: Final = 32
"""So many of a node's violations are written, the newest: a page shows no more at a glance."""

MOST_TEXT_BYTES: Final = 8 << 10
"""More than 32 of the longest take: 235 bytes each."""

_UID: Final = r"\A[A-Za-z0-9._-]{1,64}\Z"  # of the API server 36
_CONTAINER: Final = r"\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z"  # a DNS label, as the API demands
_REASON: Final = r"\A[A-Z][A-Za-z0-9]{0,63}\Z"  # a newer agent may have others than ours
_SINCE: Final = r"\A[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z\Z"


class BadViolations(GpustackError, ValueError):
    """A text that names no violations; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareViolation:
    """One kind of violation of one container.

    Attributes:
        uid: its pod's, as the API server has it.
        container: its name.
        reason: the reason of the Event that says more.
        since: when it was found first, RFC 3339 in UTC, to the second.
    """

    uid: str
    container: str
    reason: str
    since: str

    @property
    def text(self) -> str:
        """What it is, for people."""
        return f"container {self.container}: {self.reason} since {self.since}"


class _Violation(TypedDict):
    uid: Annotated[str, msgspec.Meta(pattern=_UID)]
    container: Annotated[str, msgspec.Meta(pattern=_CONTAINER)]
    reason: Annotated[str, msgspec.Meta(pattern=_REASON)]
    since: Annotated[str, msgspec.Meta(pattern=_SINCE)]


class _Body(TypedDict):
    version: Literal[1]
    violations: Annotated[list[_Violation], msgspec.Meta(max_length=MOST)]


_BODY: Final = msgspec.json.Decoder(_Body)


def encode(found: Iterable[ShareViolation]) -> str:
    """Return the annotation's value: one line of JSON, with the newest first.

    Of very many the newest are written.
    """
    last = sorted(found, key=lambda each: (each.uid, each.container, each.reason))
    last.sort(key=lambda each: each.since, reverse=True)
    body = [
        {
            "uid": each.uid,
            "container": each.container,
            "reason": each.reason,
            "since": each.since,
        }
        for each in last[:MOST]
    ]
    return json.dumps({"version": VERSION, "violations": body}, separators=(",", ":"))


def text_of(keys: Keys, node: Mapping[str, Any]) -> str:
    """Return the annotation of a node of the API, empty where it has none.

    Of one that is too large the beginning, which is too large as well: it is kept for each node.
    """
    return annotations_of(node).get(keys.gpu_violations, "")[: MOST_TEXT_BYTES + 1]


def decode(text: str) -> tuple[ShareViolation, ...]:
    """Read the annotation's value; an empty one says nothing.

    Raises:
        BadViolations: it is too large, isn't JSON, has an unknown version, or an impossible value.
    """
    if not text:
        return ()
    if len(text) > MOST_TEXT_BYTES:
        raise BadViolations(f"the violations take more than {MOST_TEXT_BYTES} bytes")
    try:
        body = _BODY.decode(text.encode())
        for each in body["violations"]:
            datetime.datetime.fromisoformat(each["since"])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        # Of what stands there, only numbers and the names of types and fields are repeated.
        raise BadViolations(f"the violations can't be read: {error}") from None
    return tuple(ShareViolation(**each) for each in body["violations"])


def of_pod(
    found: Iterable[ShareViolation], uid: str, containers: Collection[str]
) -> tuple[ShareViolation, ...]:
    """Return what its node says of a pod's containers, each kind once.

    Other containers that it names aren't the pod's.
    """
    own: dict[tuple[str, str], ShareViolation] = {}
    for each in found:
        if each.uid == uid and each.container in containers:
            own.setdefault((each.container, each.reason), each)
    return tuple(own.values())


def as_json(found: Iterable[ShareViolation]) -> list[dict[str, str]]:
    """Return violations of a pod as programs read them."""
    return [
        {"container": each.container, "reason": each.reason, "since": each.since} for each in found
    ]
