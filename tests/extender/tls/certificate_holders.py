"""An authority, two between it and a client, and the client; and others like them."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import NameOID

from tests.testbed.host_files import certificates

Key = (
    rsa.RSAPrivateKey
    | ec.EllipticCurvePrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
)

KEYS: Final[dict[str, Callable[[], Key]]] = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "Ed448": ed448.Ed448PrivateKey.generate,
}


@dataclass(frozen=True)
class Holder:
    """A certificate and its key; an authority's, or a client's."""

    certificate: x509.Certificate
    key: Key

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def sign(self, name: str, kind: str = "P-256", *, authority: bool | None = None) -> "Holder":
        return issue(name, KEYS[kind](), self, authority=authority)


def issue(name: str, key: Key, issuer: Holder | None, *, authority: bool | None = None) -> Holder:
    """Make a certificate; without an issuer it signs itself.

    It has basic constraints if ``authority`` says what is in them.
    """
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, by = (key, subject) if issuer is None else (issuer.key, issuer.certificate.subject)
    now = datetime.datetime.now(datetime.UTC)
    number = x509.random_serial_number()
    builder = x509.CertificateBuilder(by, subject, key.public_key(), number)
    builder = builder.not_valid_before(now + certificates.LASTING.begins)
    builder = builder.not_valid_after(now + certificates.LASTING.ends)
    if authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(authority, None), True)
    edwards = isinstance(signer, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return Holder(builder.sign(signer, None if edwards else hashes.SHA256()), key)


def root(kind: str = "P-256") -> Holder:
    return issue("authority", KEYS[kind](), None, authority=True)


ROOT: Final = root()
UPPER: Final = ROOT.sign("upper", authority=True)
LOWER: Final = UPPER.sign("lower", authority=True)
CLIENT: Final = LOWER.sign("client")
