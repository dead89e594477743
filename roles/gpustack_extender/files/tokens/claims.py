"""What a service account's token says of itself: a JWT (RFC 7519), whose signature isn't checked.

The API server checks it; its readers here only want to know when to ask for the next one, and what
that must be bound to.
"""

from __future__ import annotations

import base64
import json
import re
from typing import NamedTuple

# Renewed once a third of its time is used: a server that is away for long, or a host without power,
# then has two thirds left. With a third left, the renewal has failed for as long.
_THIRDS = 3
_CLOCK_SECONDS = 3600  # by which clocks of host and API server may differ
_LAST = 253_402_300_799  # the end of 9999: no date of Python's is later
# Three words of base64url, RFC 7515. What is sent as a header is this or nothing.
_TOKEN = re.compile(r"[-\w]+\.([-\w]+)\.[-\w]+", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")  # in a path


class BadToken(ValueError):
    """A text is no token of a service account that is bound to a Secret."""


class Claims(NamedTuple):
    """Whose token it is, what it is bound to, and its time in seconds since 1970."""

    namespace: str
    account: str
    secret: str
    secret_uid: str
    begins: int
    ends: int

    def is_due(self, now: float, seconds: int) -> bool:
        """Say whether the next one is to be asked for.

        So is one that lasts longer than told, or by this host's clock begins hours from now: what
        is left by a clock that is wrong can't be told.
        """
        whole = self.ends - self.begins
        used = now - self.begins
        return whole > seconds or used >= whole / _THIRDS or used < -_CLOCK_SECONDS

    def is_late(self, now: float) -> bool:
        """Say whether a renewal is so late that a person must look at it."""
        return self.ends - now < (self.ends - self.begins) / _THIRDS


def read(token: str) -> Claims:
    """Return the claims of a token.

    Raises:
        BadToken: it is none, or isn't bound to a Secret.
    """
    word = _TOKEN.fullmatch(token)
    claims = _claims(word[1]) if word else None
    if claims is None or not _can_be(claims):
        raise BadToken("is no token of a service account that is bound to a Secret")
    return claims


def _claims(payload: str) -> Claims | None:
    try:
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        ours = found["kubernetes.io"]
        return Claims(
            str(ours["namespace"]), str(ours["serviceaccount"]["name"]),
            str(ours["secret"]["name"]), str(ours["secret"]["uid"]),
            int(found["iat"]), int(found["exp"]),
        )  # fmt: skip
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return None


def _can_be(claims: Claims) -> bool:
    """Say whether names can stand in a path, and times are dates."""
    names = _NAME.fullmatch(claims.namespace) and _NAME.fullmatch(claims.account)
    return bool(names) and 0 <= claims.begins < claims.ends <= _LAST
