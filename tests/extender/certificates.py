"""Certificates of every kind that a client may show."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key, as objects and as files."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    certificate_file: Path
    key_file: Path


def make(
    folder: Path,
    name: str,
    signer: Pair | None = None,
    *,
    usage: x509.ObjectIdentifier = oid.ExtendedKeyUsageOID.CLIENT_AUTH,
    from_days: int = -1,
    days: int = 1,
) -> Pair:
    """Make a certificate for ``name``, by ``signer`` or, without one, an authority's own.

    It is valid from ``from_days`` until ``days`` from now. A file of the same name is replaced.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + from_days * DAY)
        .not_valid_after(now + days * DAY)
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    )
    if signer is not None:
        addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(
            x509.SubjectAlternativeName(addresses), critical=False
        ).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    signed = builder.sign(signer.key if signer else key, hashes.SHA256())
    stem = name.replace(":", "-")
    pair = Pair(
        certificate=signed,
        key=key,
        certificate_file=folder / f"{stem}.crt",
        key_file=folder / f"{stem}.key",
    )
    pair.certificate_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pair.key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pair
