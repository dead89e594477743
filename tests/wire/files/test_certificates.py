"""The dates of certificates and tokens."""

import base64
import datetime
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from gpustack.wire.files import certificates
from gpustack.wire.files.certificates import Validity

_KEY = ec.generate_private_key(ec.SECP256R1())
_MOMENTS = st.datetimes(
    min_value=datetime.datetime(1951, 1, 1), max_value=datetime.datetime(2100, 1, 1)
)


def built(begins: datetime.datetime, ends: datetime.datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "n" * 60)] * 3)
    return (
        x509.CertificateBuilder(name, name, _KEY.public_key(), x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .sign(_KEY, hashes.SHA256())
    )


@given(_MOMENTS, _MOMENTS)
def test_the_dates_are_those_of_another_reader(
    one: datetime.datetime, other: datetime.datetime
) -> None:
    certificate = built(min(one, other), max(one, other))
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    key = _KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    found = Validity(begins=certificate.not_valid_before_utc, ends=certificate.not_valid_after_utc)
    assert certificates.certificates(b"a note\n" + pem + key + pem) == [found, found]


@given(st.binary(max_size=200))
def test_other_bytes_are_no_certificate(data: bytes) -> None:
    pem = b"-----BEGIN CERTIFICATE-----\n%s\n-----END CERTIFICATE-----\n" % base64.b64encode(data)
    for text in (data, pem):
        with pytest.raises(ValueError, match=r"has (no|a) certificate"):
            certificates.certificates(text)


def test_a_cut_certificate_has_no_dates() -> None:
    moment = datetime.datetime(2030, 1, 1)
    der = built(moment, moment).public_bytes(serialization.Encoding.DER)
    for length in range(1, len(der)):
        body = base64.b64encode(der[:length])
        text = b"-----BEGIN CERTIFICATE-----%s-----END CERTIFICATE-----" % body
        with pytest.raises(ValueError, match="has a certificate without dates"):
            certificates.certificates(text)


def jwt(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.sum\n"


def test_a_token_says_when_it_ends() -> None:
    found = certificates.token(jwt({"exp": 4_102_444_800, "iat": 0}))
    assert found is not None
    assert found.ends == datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    assert found.begins == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "text",
    [
        "abc", "", "a.b.c", "a.é.c", jwt([]), jwt({}), jwt({"exp": "soon"}), jwt({"exp": 1e300}),
        jwt({"exp": None}), jwt({"exp": True, "iat": []}),
    ],
)  # fmt: skip
def test_a_text_of_another_form_says_nothing(text: str) -> None:
    assert certificates.token(text) is None
