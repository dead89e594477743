"""Asking the address on which a daemon lets other machines read its metrics."""

import pathlib
import socket
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gpustack.adapters import http_get
from gpustack.adapters.web.listen_address import split_listen
from gpustack.cli.doctor.host import local_files
from gpustack.cli.doctor.host.facts import MetricsAddress
from gpustack.wire.config import load_config

_SECONDS: Final = 5.0
_MOST_BYTES: Final = 1 << 24  # more than a daemon's metrics, should it answer with them
# An address that means all of a host's: where it is asked, and one elsewhere (RFC 5737, RFC 3849).
_WILDCARDS: Final = {"0.0.0.0": ("127.0.0.1", "192.0.2.1"), "::": ("::1", "2001:db8::1")}  # noqa: S104
# X509_V_ERR_* of OpenSSL's x509_vfy.h: not yet valid, expired; of another host, another address.
_DATES: Final = {9, 10}
_NAMES: Final = {62, 64}
_ALERT: Final = "HANDSHAKE_FAILURE"  # what TLS 1.2 says to a client without a certificate
_REFUSED: Final = 401


def of_config(path: pathlib.Path, schema: str) -> tuple[MetricsAddress, ...]:
    """Return what the address of a daemon with this configuration answers; nothing without one.

    Raises:
        ConfigError: the configuration can't be used.
    """
    if not path.exists():
        return ()
    return of_section(f"gpustack-{schema}", load_config(path, schema)["metrics"])


def of_section(daemon: str, section: Mapping[str, Any] | None) -> tuple[MetricsAddress, ...]:
    """Return what the address of a section `metrics` answers; nothing where there is none."""
    if section is None:
        return ()
    found = MetricsAddress(
        daemon=daemon,
        listen=section["listen"],
        tokens=section["tokens"],
        certificate=local_files.certificate(section["certificate"]),
    )
    host, port, problem = split_listen(section["listen"], tls=True)
    if problem or found.certificate.problem:
        return (replace(found, problem=problem),)
    asked, elsewhere = _WILDCARDS.get(host, (host, ""))
    name = _own_address(elsewhere) if elsewhere else host
    return (_asked(found, asked, port, name),)


def _own_address(elsewhere: str) -> str:
    """Return the address with which this host reaches others; empty where no route leads there."""
    family = socket.AF_INET6 if ":" in elsewhere else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((elsewhere, 9))  # chooses a route, and sends nothing
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def _asked(found: MetricsAddress, host: str, port: int, name: str) -> MetricsAddress:
    """Ask as a reader without rights, who wants the certificate to have this name."""
    try:
        return replace(found, status=_status(found.certificate.place, host, port, name))
    except http_get.HttpGetError as error:
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            if name and cause.verify_code in _NAMES:
                return replace(_asked(found, host, port, ""), unnamed=name)
            # the file's dates say it already
            why = "" if cause.verify_code in _DATES else cause.verify_message
            text = f"shows another certificate than {found.certificate.place}: {why}"
            return replace(found, problem=text if why else "")
        reason = cause.reason if isinstance(cause, ssl.SSLError) else None
        if not found.tokens and _ALERT in (reason or ""):
            return replace(found, status=_REFUSED)
        return replace(found, problem=f"{error}: does {found.daemon} run?")


def _status(certificate: str, host: str, port: int, name: str) -> int:
    """Return the status of the answer of a server that shows this certificate and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the file's own is trusted
    context.load_verify_locations(certificate)
    context.check_hostname = bool(name)
    where = f"https://{f'[{host}]' if ':' in host else host}:{port}/metrics"
    answer = http_get.get(
        where, seconds=_SECONDS, max_bytes=_MOST_BYTES, tls=context, server_name=name
    )
    return answer.status
