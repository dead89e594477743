"""TLS of a server, and of a client that shows a certificate, as files on the host say.

What a server's client may do whose certificate the authority has signed is the application's to
say: whose subject may have cards reserved is one name (``common_name``). The files are looked at
for every new connection, so that a renewed certificate counts at once; connections that are open
stay. A session is resumed only while its connection is open: a resumed one doesn't look at the
certificate's dates again.
"""

import logging
import ssl
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from gpustack.model.errors import GpustackError
from gpustack.wire.files import regular_file

logger = logging.getLogger(__name__)

# X509_V_ERR_* of OpenSSL's x509_vfy.h, by the word that metrics show.
_VERIFICATIONS: Final = {
    9: "not_yet_valid",
    10: "expired",
    **dict.fromkeys((2, 18, 19, 20, 21), "unknown_issuer"),
    26: "wrong_purpose",
}
_MOST_BYTES: Final = 1 << 20  # hundreds of authorities
_NO_CERTIFICATE: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"


class TlsError(GpustackError):
    """Certificate, key or authority can't be used; the text names the setting and the file."""


@dataclass(frozen=True, slots=True)
class TlsContext:
    """What is read of the files at one time.

    Attributes:
        openssl: what makes connections.
        authorities: a server's: the certificates of ``TlsFiles.client_ca``.
    """

    openssl: ssl.SSLContext
    authorities: tuple[x509.Certificate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What TLS is made of.

    Attributes:
        certificate: ours, PEM, with its intermediate certificates.
        key: its private key, PEM, without a passphrase.
        client_ca: the authorities whose clients are let in, PEM; None where no client is asked for
            a certificate.
        client_name: common name of the client that may have pods decided about; "" where there are
            no decisions.
        section: where the files are named in the configuration, for errors.
        client_required: whether a client must show a certificate.
    """

    certificate: Path
    key: Path
    client_ca: Path | None
    client_name: str = ""
    section: str = "tls"
    client_required: bool = True

    def context(self) -> TlsContext:
        """Read the files.

        Raises:
            TlsError: one of them is missing, unreadable, or not what it should be.
        """
        _require_files(self.section, self._named())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # 1.3 encrypts the client's certificates, and they must be looked at before OpenSSL
        # decodes them (``client_certificates``). It also knows ffdhe8192, which a hello of 1 KB may
        # ask for at 0.15 s of processor time; 1.2 agrees on curves only.
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        _load_certificate(context, self.section, self.certificate, self.key)
        return TlsContext(context, self._authorities(context))

    def _authorities(self, context: ssl.SSLContext) -> tuple[x509.Certificate, ...]:
        """Let a context ask for certificates of the authorities, and return these."""
        if self.client_ca is None:
            return ()
        context.verify_mode = ssl.CERT_REQUIRED if self.client_required else ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(self.client_ca)
            return tuple(x509.load_pem_x509_certificates(self.client_ca.read_bytes()))
        except (ssl.SSLError, ValueError, x509.InvalidVersion) as error:
            raise TlsError(
                f"{self.section}.client_ca: {self.client_ca} holds no PEM certificate: "
                f"{_reason(error)}"
            ) from error

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return what changes when a file, its mode or its owner does; a missing one is nothing."""
        return tuple(_stamp(path) for _, path in self._named())

    def _named(self) -> tuple[tuple[str, Path], ...]:
        ours = (("certificate", self.certificate), ("key", self.key))
        return ours if self.client_ca is None else (*ours, ("client_ca", self.client_ca))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTlsFiles:
    """What TLS of a client is made of that shows a certificate, and trusts no other authorities.

    Attributes:
        certificate: ours, PEM, with its intermediate certificates.
        key: its private key, PEM, without a passphrase.
        ca: the authorities of the servers, PEM.
        section: where the files are named in the configuration, for errors.
    """

    certificate: Path
    key: Path
    ca: Path
    section: str

    def context(self) -> TlsContext:
        """Read the files.

        Raises:
            TlsError: one of them is missing, unreadable, or not what it should be.
        """
        _require_files(self.section, self._named())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load_certificate(context, self.section, self.certificate, self.key)
        try:
            context.load_verify_locations(self.ca)
        except ssl.SSLError as error:
            text = f"{self.section}.ca: {self.ca} holds no PEM certificate: {_reason(error)}"
            raise TlsError(text) from error
        return TlsContext(context, ())

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return what changes when a file, its mode or its owner does; a missing one is nothing."""
        return tuple(_stamp(path) for _, path in self._named())

    def _named(self) -> tuple[tuple[str, Path], ...]:
        return ("certificate", self.certificate), ("key", self.key), ("ca", self.ca)


class TlsContexts:
    """The context for the next connection, renewed when the files have changed."""

    def __init__(self, files: TlsFiles | ClientTlsFiles, *, required: bool = True) -> None:
        """Read the files for the first time.

        Raises:
            TlsError: they can't be used, and are required to begin with.
        """
        self._files = files
        self._lock = threading.Lock()
        self._stamp = files.stamp()
        self._context: TlsContext | None = None
        try:
            self._context = files.context()
        except TlsError as error:
            if required:
                raise
            logger.error("certificates can't be used until they change: %s", error)

    def current(self) -> TlsContext:
        """Return the newest usable context; files that can't be used keep the last good one.

        Raises:
            TlsError: there was none yet.
        """
        with self._lock:
            stamp = self._files.stamp()
            if stamp != self._stamp:
                # Also when they can't be used: said once, and tried again at their next change.
                self._stamp = stamp
                try:
                    self._context = self._files.context()
                except TlsError as error:
                    logger.error("certificates can't be used, keeping the ones before: %s", error)
                else:
                    logger.info("certificates read again file=%s", self._files.certificate)
            if self._context is None:
                raise TlsError(f"{self._files.section}: no usable certificate yet")
            return self._context


def common_name(connection: object) -> str | None:
    """Return the verified client's common name; None on a connection without TLS.

    A subject with several common names, or none, has the name "".
    """
    shown = getattr(connection, "getpeercert", None)
    if shown is None:
        return None
    certificate = shown() or {}
    subject: tuple[tuple[tuple[str, str], ...], ...] = certificate.get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else ""


def explain(error: OSError) -> tuple[str, str]:
    """Say why a handshake failed: a word from a fixed list, and a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        word = _VERIFICATIONS.get(error.verify_code, "bad_certificate")
        return word, f"the client's certificate is refused: {error.verify_message}"
    reason = _reason(error)
    if reason == _NO_CERTIFICATE:
        return "no_certificate", "the client shows no certificate"
    if "ALERT" in reason:
        word = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return "refused_by_client", f"the client refuses our certificate or TLS version: {word}"
    return "handshake", f"no TLS handshake: {reason}"


def _require_files(section: str, named: Iterable[tuple[str, Path]]) -> None:
    """Raise a TlsError unless each of these settings names a file that can be read."""
    for setting, path in named:
        try:
            regular_file.read(path, max_bytes=_MOST_BYTES)
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            raise TlsError(f"{section}.{setting}: {path}: {problem}") from error


def _load_certificate(context: ssl.SSLContext, section: str, certificate: Path, key: Path) -> None:
    """Let a context show a certificate.

    Raises:
        TlsError: certificate or key can't be used.
    """
    try:
        # An empty passphrase instead of a question on the terminal.
        context.load_cert_chain(certificate, key, password=b"")
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(
            f"{section}.certificate and {section}.key: {certificate} and {key} are no PEM "
            f"certificate and its key: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error) or type(error).__name__


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_ctime_ns, found.st_ino, found.st_size
