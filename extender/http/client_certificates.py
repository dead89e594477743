"""What a client sends in a handshake of TLS 1.2, read before the TLS library reads it.

The library decodes the key of every certificate before it asks who signed it. One certificate of
700 bytes, whose key is a compressed point on a curve of its own, costs 0.3 s of processor time, and
a client may send 100 KB of them. So only usual kinds of keys, and few certificates, reach it.
"""

import ssl
from typing import Final

_CERTIFICATE: Final = 11  # type of a message (RFC 5246, 7.4)
_HEAD_BYTES: Final = 4  # of a message: type and length
_MESSAGE_BYTES: Final = 1 << 14  # a certificate has 1 to 2 KB, a hello less
_MOST: Final = 8  # a client's certificate, and those between it and its authority

# AlgorithmIdentifier of a key, as DER, by what it is called.
_ALGORITHMS: Final = {
    "RSA": "300d06092a864886f70d0101010500",
    "P-256": "301306072a8648ce3d020106082a8648ce3d030107",
    "P-384": "301006072a8648ce3d020106052b81040022",
    "P-521": "301006072a8648ce3d020106052b81040023",
    "Ed25519": "300506032b6570",
}
_TAKEN: Final = frozenset(map(bytes.fromhex, _ALGORITHMS.values()))

_SEQUENCE: Final = 0x30
_INTEGER: Final = 0x02
_VERSION: Final = 0xA0
# Of a certificate, from the serial number to the key (RFC 5280, 4.1).
_FIELDS: Final = (_INTEGER, *[_SEQUENCE] * 5)


class ClientMessages:
    """The messages of a client up to its certificates; what follows them costs little."""

    def __init__(self) -> None:
        self._stream = bytearray()
        self._done = False

    def take(self, data: bytes) -> None:
        """Look at the content of a record of type handshake.

        Raises:
            ssl.SSLError: the library must not get it.
        """
        self._stream += b"" if self._done else data
        while len(self._stream) >= _HEAD_BYTES and not self._done:
            end = _HEAD_BYTES + int.from_bytes(self._stream[1:_HEAD_BYTES])
            if end > _MESSAGE_BYTES:
                raise _refusal(f"a message of more than {_MESSAGE_BYTES} bytes")
            if len(self._stream) < end:
                return
            if self._stream[0] == _CERTIFICATE:
                _check_certificates(bytes(self._stream[_HEAD_BYTES:end]))
                self.end()
            del self._stream[:end]

    def end(self) -> None:
        """Pass over all that follows: it is encrypted, or no certificate."""
        self._done = True


def _check_certificates(message: bytes) -> None:
    """Raise an ``ssl.SSLError`` where a list of certificates must not be decoded."""
    rest = message[3:]
    for _ in range(_MOST):
        if not rest:
            return
        end = 3 + int.from_bytes(rest[:3])
        _check_key(rest[3:end])
        rest = rest[end:]
    if rest:
        raise _refusal(f"the client shows more than {_MOST} certificates")


def _check_key(certificate: bytes) -> None:
    """Raise an ``ssl.SSLError`` where a certificate's key is of no usual kind."""
    try:
        signed = _element(_element(certificate, _SEQUENCE)[1], _SEQUENCE)[1]
        if signed[0] == _VERSION:
            signed = _element(signed, _VERSION)[2]
        field = b""
        for tag in _FIELDS:
            _, field, signed = _element(signed, tag)
        algorithm, _, _ = _element(field, _SEQUENCE)
    except IndexError:
        raise _refusal("a certificate of the client is no X.509 in DER") from None
    if algorithm not in _TAKEN:
        kinds = ", ".join(_ALGORITHMS)
        raise _refusal(f"the key of a certificate of the client is of no kind of {kinds}")


def _element(data: bytes, tag: int) -> tuple[bytes, bytes, bytes]:
    """Return the first element of DER, its content, and what follows it.

    Raises:
        IndexError: there is none of this tag.
    """
    begin, length = 2, data[1]
    if length > 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[2:begin])
    elif length == 0x80:  # of BER: the end is marked
        raise IndexError
    end = begin + length
    if data[0] != tag or end > len(data):
        raise IndexError
    return data[:end], data[begin:end], data[end:]


def _refusal(text: str) -> ssl.SSLError:
    return ssl.SSLError(ssl.SSL_ERROR_SSL, text)
