"""For how long certificates hold: the two dates of X.509 certificates in PEM, and of tokens.

A GPU host has no library for X.509 but OpenSSL below Python's `ssl`, which shows no certificate of
a client. The dates stand at a fixed place of the DER (RFC 5280 4.1), so a reader of nothing else is
short. It checks no signature.
"""

import base64
import datetime
import json
import re
from dataclasses import dataclass
from typing import Final

_PEM: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----"
)
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0  # [0] EXPLICIT, left out in certificates of version 1
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_LONG_FORM: Final = 0x80
_MOST_LENGTH_BYTES: Final = 3
_BEFORE_VALIDITY: Final = 3  # serial number, signature algorithm, issuer
_JWT_PARTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """From when until when something holds."""

    begins: datetime.datetime
    ends: datetime.datetime


def certificates(pem: bytes) -> list[Validity]:
    """Return the dates of the certificates in a text, in its order; other texts are passed over.

    Raises:
        ValueError: there is none, or one has no dates.
    """
    found = [_validity(base64.b64decode(body)) for body in _PEM.findall(pem)]
    if not found:
        raise ValueError("has no certificate in PEM")
    return found


def token(text: str) -> Validity | None:
    """Return the dates of a token that is a JWT (RFC 7519); None where it says none.

    Where it doesn't say when it was issued, it begins as it ends.
    """
    parts = text.strip().split(".")
    if len(parts) != _JWT_PARTS:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        ends = _moment(claims["exp"])
        begins = _moment(claims.get("iat", claims["exp"]))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, OSError):
        return None
    return Validity(begins=begins, ends=ends)


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _validity(der: bytes) -> Validity:
    try:
        certificate, _ = _content(der, _SEQUENCE)
        signed, _ = _content(certificate, _SEQUENCE)
        if signed[:1] == bytes([_VERSION]):
            _, signed = _content(signed, _VERSION)
        for _ in range(_BEFORE_VALIDITY):
            _, signed = _content(signed, signed[0])
        dates, _ = _content(signed, _SEQUENCE)
        first, rest = _content(dates, dates[0])
        second, _ = _content(rest, rest[0])
        return Validity(begins=_time(dates[0], first), ends=_time(rest[0], second))
    except (IndexError, ValueError) as error:
        raise ValueError("has a certificate without dates") from error


def _content(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of the value that data begins with, and what follows it.

    Raises:
        ValueError: it has another tag, or is cut.
    """
    if data[0] != tag:
        raise ValueError(f"tag {data[0]} instead of {tag}")
    length, start = data[1], 2
    if length >= _LONG_FORM:
        size = length - _LONG_FORM
        if not 1 <= size <= _MOST_LENGTH_BYTES:
            raise ValueError("a length of another form")
        start += size
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        raise ValueError("it is cut")
    return data[start : start + length], data[start + length :]


def _time(tag: int, text: bytes) -> datetime.datetime:
    """Read UTCTime (two digits of the year, from 1950 on) or GeneralizedTime."""
    if tag not in {_UTC_TIME, _GENERALIZED_TIME}:
        raise ValueError("no time")
    digits = text.decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:
        digits = ("19" if digits >= "50" else "20") + digits
    found = datetime.datetime.strptime(digits, "%Y%m%d%H%M%S")
    return found.replace(tzinfo=datetime.UTC)
