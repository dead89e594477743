"""Certificates that cost OpenSSL much, or might: written byte by byte, signed by no authority."""

from collections.abc import Callable
from typing import Final

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_ECDSA: Final = bytes.fromhex("300a06082a8648ce3d040302")  # with SHA-256
_EC_KEY: Final = bytes.fromhex("06072a8648ce3d0201")
_PRIME_FIELD: Final = bytes.fromhex("06072a8648ce3d0101")
_P256: Final = bytes.fromhex("301306072a8648ce3d020106082a8648ce3d030107")
_MANY: Final = 1500  # of parts of a name: nearly all that 16 KB hold
_LISTS: Final = 580


def der(tag: int, *parts: bytes) -> bytes:
    """Return an element of DER."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content


def _integer(value: int) -> bytes:
    return der(2, value.to_bytes(value.bit_length() // 8 + 1))


def _bits(content: bytes) -> bytes:
    return der(3, b"\0", content)


def _key(algorithm: bytes, point: bytes) -> bytes:
    return der(_SEQUENCE, algorithm, _bits(point))


def _common(value: str) -> bytes:
    return der(_SEQUENCE, bytes.fromhex("0603550403"), der(0x0C, value.encode()))


def _name(value: str) -> bytes:
    return der(_SEQUENCE, der(_SET, _common(value)))


def _parts(count: int) -> bytes:
    """Return a name of many parts."""
    return der(_SEQUENCE, der(_SET, der(_SEQUENCE, b"\x06\x01\x2a\x13\0")) * count)


def _set(count: int) -> bytes:
    """Return a name of one part that has many values."""
    return der(_SEQUENCE, der(_SET, der(_SEQUENCE, b"\x06\x01\x2a\x13\0") * count))


def _extension(oid: str, *value: bytes) -> bytes:
    return der(_SEQUENCE, bytes.fromhex(oid), der(4, *value))


def _own_curve() -> bytes:
    """Return a compressed point on a curve that its parameters describe."""
    prime = (1 << 521) - 1
    field = der(_SEQUENCE, _PRIME_FIELD, _integer(prime))
    curve = der(_SEQUENCE, der(4, b"\x01"), der(4, b"\x02"))
    base = der(4, b"\x02" + (2).to_bytes(66))
    parameters = der(_SEQUENCE, _integer(1), field, curve, base, _integer(prime - 2), _integer(1))
    return _key(der(_SEQUENCE, _EC_KEY, parameters), b"\x02" + (3).to_bytes(66))


def _lists(count: int) -> bytes:
    """Return revocation lists that are named relative to their issuer."""
    attribute = der(_SEQUENCE, b"\x06\x01\x2a\x13\0")
    point = der(_SEQUENCE, der(0xA0, der(0xA1, attribute)))
    return _extension("0603551d1f", der(_SEQUENCE, point * count))


def _nested(depth: int) -> bytes:
    found = b""
    for _ in range(depth):
        found = der(_SEQUENCE, found)
    return found


def certificate(
    issuer: str | bytes = "authority",
    *,
    subject: bytes | None = None,
    key: bytes | None = None,
    serial: int = 1,
    extensions: bytes = b"",
) -> bytes:
    """Return a certificate whose signature is made up."""
    dates = der(_SEQUENCE, der(0x17, b"250101000000Z"), der(0x17, b"350101000000Z"))
    signed = der(
        _SEQUENCE,
        der(0xA0, _integer(2)),
        _integer(serial),
        _ECDSA,
        _name(issuer) if isinstance(issuer, str) else issuer,
        dates,
        _name("system:kube-scheduler") if subject is None else subject,
        _key(_P256, b"\x04" + bytes(64)) if key is None else key,
        der(0xA3, der(_SEQUENCE, extensions)) if extensions else b"",
    )
    made_up = der(_SEQUENCE, _integer(1), _integer(1))
    return der(_SEQUENCE, signed, _ECDSA, _bits(made_up))


FORMS: Final[dict[str, Callable[[], bytes]]] = {
    "usual": certificate,
    "a key on a curve of its own": lambda: certificate(key=_own_curve()),
    "a key of 100000 bits": lambda: certificate(
        key=_key(
            bytes.fromhex("300d06092a864886f70d0101010500"),
            der(_SEQUENCE, _integer((1 << 100_000) + 1), _integer(3)),
        )
    ),
    "a key of no known kind": lambda: certificate(
        key=_key(der(_SEQUENCE, b"\x06\x03\x2a\x03\x04", _nested(3400)), b"\x01")
    ),
    "relative revocation lists": lambda: certificate(extensions=_lists(_LISTS)),
    "relative lists of a long issuer": lambda: certificate(
        _parts(800), extensions=_lists(_LISTS - 80)
    ),
    "an issuer of many parts": lambda: certificate(_parts(_MANY)),
    "an issuer of many values": lambda: certificate(_set(_MANY)),
    "a subject of many parts": lambda: certificate(subject=_parts(_MANY)),
    "a subject of many values": lambda: certificate(subject=_set(_MANY)),
    "a serial number of 15 KB": lambda: certificate(serial=1 << 120_000),
    "many extensions": lambda: certificate(
        extensions=der(_SEQUENCE, b"\x06\x01\x2a\x04\0") * _MANY
    ),
    "many names": lambda: certificate(
        extensions=_extension("0603551d11", der(_SEQUENCE, der(0x82, b"a") * 4000))
    ),
}
