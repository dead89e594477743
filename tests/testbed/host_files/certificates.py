"""Keys and certificates of the test cluster, in the layout that kubeadm makes.

The identity of a Kubernetes client stands in its certificate: the common name is the user, each
organisation a group (Kubernetes documentation, "PKI certificates and requirements").
"""

import base64
import dataclasses
import datetime
import ipaddress
import json
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """When a certificate is good, counted from now."""

    begins: datetime.timedelta
    ends: datetime.timedelta


LASTING = Validity(
    begins=-datetime.timedelta(hours=1),  # for hosts with a clock that is a little behind
    ends=datetime.timedelta(days=365),  # longer than any testbed lives
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The files of a certificate and its private key."""

    certificate: pathlib.Path
    key: pathlib.Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def store(self, folder: pathlib.Path, name: str) -> Stored:
        """Write both into a folder, in place of files of these names."""
        stored = Stored(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")
        stored.certificate.write_bytes(self.certificate)
        stored.key.write_bytes(self.key)
        return stored


@dataclasses.dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that signs the cluster's certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pair(self) -> Pair:
        """Return the authority's own certificate and key."""
        return Pair(certificate=_certificate_pem(self.certificate), key=_key_pem(self.key))

    def client(self, user: str, groups: tuple[str, ...] = (), *, valid: Validity = LASTING) -> Pair:
        """Sign a certificate that lets its holder log in as a user of some groups."""
        return self._sign(_name(user, groups), oid.ExtendedKeyUsageOID.CLIENT_AUTH, (), valid)

    def server(self, name: str, also: tuple[str, ...], *, valid: Validity = LASTING) -> Pair:
        """Sign a certificate of a server that is reached under these names and addresses."""
        return self._sign(_name(name), oid.ExtendedKeyUsageOID.SERVER_AUTH, (name, *also), valid)

    def _sign(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: tuple[str, ...],
        valid: Validity,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self.certificate.subject, key.public_key(), valid)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        signed = builder.sign(self.key, hashes.SHA256())
        return Pair(certificate=_certificate_pem(signed), key=_key_pem(key))


def authority(name: str) -> Authority:
    """Make a new certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(name), _name(name), key.public_key(), LASTING)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def signing_key() -> tuple[bytes, bytes]:
    """Make the private and public key, as PEM, that service accounts' tokens are signed with."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _key_pem(key), public


def kubeconfig(server: str, authority_pem: bytes, user: str, pair: Pair) -> bytes:
    """Write a kubeconfig that holds all it needs; JSON, which every reader of YAML reads.

    Args:
        server: The API server's URL.
        authority_pem: The certificate that signed the server's.
        user: A name for the user in this file; the identity stands in the certificate.
        pair: The user's certificate and key.
    """
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "testbed",
                "cluster": {"server": server, "certificate-authority-data": _data(authority_pem)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _data(pair.certificate),
                    "client-key-data": _data(pair.key),
                },
            }
        ],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    }
    return (json.dumps(text, indent=2) + "\n").encode()


def _data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def _name(common: str, organisations: tuple[str, ...] = ()) -> x509.Name:
    groups = [x509.NameAttribute(oid.NameOID.ORGANIZATION_NAME, group) for group in organisations]
    return x509.Name([*groups, x509.NameAttribute(oid.NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: Validity
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + valid.begins)
        .not_valid_after(now + valid.ends)
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        # "EC PRIVATE KEY": what every Kubernetes component reads
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
