"""What a client sends in a handshake of TLS 1.2, read before OpenSSL reads it.

OpenSSL decodes every certificate of a client before it asks who signed it, and a certificate of
15 KB can cost it a second: by a key with a curve of its own, by revocation lists named relative to
a long issuer, and by forms that are unknown yet. So OpenSSL gets a client's certificates only if
our authorities have signed all of them. ``cryptography`` tells that: it reads where the parts of a
certificate lie, and verifies its signature with the key of the authority. 16 KB take it 6 ms at
most (``docs/decisions/0005-one-writing-process.md``).
"""

import ssl
from collections.abc import Iterator, Sequence
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

_CERTIFICATE: Final = 11  # type of a message (RFC 5246, 7.4)
_HEAD_BYTES: Final = 4  # of a message: type and length
_LENGTH_BYTES: Final = 3  # of a list of certificates, and of each of them
_MESSAGE_BYTES: Final = 1 << 14  # a certificate has 1 to 2 KB, a hello less
_MOST: Final = 8  # a client's certificate, and those between it and its authority
# X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY of OpenSSL's x509_vfy.h, which it would answer itself
_UNKNOWN_ISSUER: Final = 20
# What extensions raise that say nothing of basic constraints.
_UNREADABLE: Final = (
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class ClientMessages:
    """The messages of a client up to its certificates; what follows them costs little."""

    def __init__(self, authorities: Sequence[x509.Certificate]) -> None:
        self._authorities = authorities
        self._stream = bytearray()
        self._done = False

    def take(self, data: bytes) -> None:
        """Look at the content of a record of type handshake.

        Raises:
            ssl.SSLCertVerificationError: our authorities have not signed all certificates.
            ssl.SSLError: OpenSSL must not get it for another reason.
        """
        self._stream += b"" if self._done else data
        while len(self._stream) >= _HEAD_BYTES and not self._done:
            end = _HEAD_BYTES + int.from_bytes(self._stream[1:_HEAD_BYTES])
            if end > _MESSAGE_BYTES:
                raise _refusal(f"a message of more than {_MESSAGE_BYTES} bytes")
            if len(self._stream) < end:
                return
            if self._stream[0] == _CERTIFICATE:
                listed = bytes(self._stream[_HEAD_BYTES + _LENGTH_BYTES : end])
                _verify({_load(each) for each in _split(listed)}, self._authorities)
                self.end()
            del self._stream[:end]

    def end(self) -> None:
        """Pass over all that follows: it is encrypted, or no certificate."""
        self._done = True


def _split(rest: bytes) -> Iterator[bytes]:
    """Return the certificates of a list, or raise an ``ssl.SSLError``."""
    for _ in range(_MOST):
        if not rest:
            return
        end = _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES])
        yield rest[_LENGTH_BYTES:end]
        rest = rest[end:]
    if rest:
        raise _refusal(f"the client shows more than {_MOST} certificates")


def _load(encoded: bytes) -> x509.Certificate:
    """Return a certificate, of which key and extensions are not decoded."""
    try:
        return x509.load_der_x509_certificate(encoded)
    except (ValueError, x509.InvalidVersion):
        raise _refusal("a certificate of the client is no X.509 in DER") from None


def _verify(shown: set[x509.Certificate], authorities: Sequence[x509.Certificate]) -> None:
    """Raise an ``ssl.SSLError`` unless each is an authority, or signed by one that is accepted.

    Every certificate is tried with every issuer once, in whatever order the client shows them.
    """
    issuers = list(authorities)
    shown = shown.difference(authorities)  # OpenSSL verifies no signature of these, either
    while shown:
        signed = {each for each in shown if any(_is_signed(each, issuer) for issuer in issuers)}
        if not signed:
            raise _unknown_issuer()
        issuers = [each for each in signed if _may_sign(each)]
        shown = shown - signed


def _is_signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _may_sign(certificate: x509.Certificate) -> bool:
    """Tell whether a certificate that our authorities signed is an authority, and no client's."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (ValueError, *_UNREADABLE):
        return False
    return found.value.ca


def _refusal(text: str) -> ssl.SSLError:
    return ssl.SSLError(ssl.SSL_ERROR_SSL, text)


def _unknown_issuer() -> ssl.SSLCertVerificationError:
    text = "it, or one shown beside it, has no issuer in client_ca"
    error = ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, text)
    error.verify_code, error.verify_message = _UNKNOWN_ISSUER, text
    return error
