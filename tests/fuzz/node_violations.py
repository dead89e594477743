"""What a node says of its containers: it may say anything, of anyone.

An input is the annotation's text.
"""

from typing import Final

from gpustack.wire import violations
from gpustack.wire.violations import BadViolations, ShareViolation
from tests.fuzz.harness import Target, check_message
from tests.wire.api import KEYS

_LONGEST: Final = 64  # characters of a UID, of a container's name, of a reason


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    kept = violations.text_of(KEYS, {"metadata": {"annotations": {KEYS.gpu_violations: text}}})
    try:
        found = violations.decode(kept)
    except BadViolations as error:
        check_message(str(error))
        return
    assert len(text) <= violations.MOST_TEXT_BYTES
    assert len(found) <= violations.MOST
    for each in found:
        shown = each.uid, each.container, each.reason, each.since
        assert all(0 < len(text) <= _LONGEST and text.isascii() for text in shown), each
        assert each.text.isprintable(), each
    assert set(violations.decode(violations.encode(found))) == set(found)


_FOUND: Final = ShareViolation(
    uid="2f1c9d0e", container="main", reason="ShareExceeded", since="2026-11-29T04:35:11Z"
)

TARGET: Final = Target(
    check=check,
    seeds=[violations.encode([_FOUND]).encode(), violations.encode([]).encode()],
    words=[
        '"uid":',
        '"container":',
        '"reason":',
        '"since":',
        '"version":1',
        '"violations":[',
        "2026-11-29T04:35:11Z",
        "\\n",
        "\\ud800",
        "null",
    ],
    limit_bytes=violations.MOST_TEXT_BYTES,
)
