"""Keys and certificates, as the program openssl makes and reads them."""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
import tempfile

_DAY_SECONDS = 86_400
_CONFIGURATION = """\
[req]
distinguished_name = subject
prompt = no
[subject]
CN = {common_name}
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = {names}
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
"""


class PkiError(Exception):
    """openssl is missing, or refuses something."""


class OpenSsl:
    """The program; keys and certificates are texts in PEM."""

    def __init__(self) -> None:
        """Look for it.

        Raises:
            PkiError: there is none.
        """
        found = shutil.which("openssl", path=f"{os.environ.get('PATH', '')}:/usr/bin:/bin")
        if found is None:
            raise PkiError("there is no openssl: install the package openssl")
        self._program = found

    def new_key(self) -> str:
        """Return a new key.

        Raises:
            PkiError: openssl fails.
        """
        return self._run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")

    def public(self, key: str) -> str:
        """Return a key's public half; "" where it has none, or has a password."""
        # Without a password, openssl would ask the terminal for one.
        return self._asked("pkey", "-pubout", "-passin", "pass:", given=key)

    def public_of(self, certificate: str) -> str:
        """Return a certificate's public key; "" where it is none."""
        return self._asked("x509", "-noout", "-pubkey", given=certificate)

    def lasts(self, certificate: str, days: int) -> bool:
        """Say whether a certificate ends later than in so many days."""
        seconds = str(days * _DAY_SECONDS)
        return self._call("x509", "-noout", "-checkend", seconds, given=certificate)[0] == 0

    def is_signed(self, certificate: str, authority: str, *, at_any_time: bool = False) -> bool:
        """Say whether a certificate is an authority's, and both are valid now unless told."""
        with tempfile.NamedTemporaryFile("w", suffix=".crt") as file:
            file.write(authority)
            file.flush()
            options = ("-no_check_time",) if at_any_time else ()
            # the host's own authorities aren't ours
            asked = ("verify", *options, "-no-CApath", "-CAfile", file.name)
            return self._call(*asked, given=certificate)[0] == 0

    def has_names(self, certificate: str, common_name: str, names: list[str] | None) -> bool:
        """Say whether a certificate has a subject, and unless None these alternative names."""
        # RFC 2253 without its escapes
        shown = ["x509", "-noout", "-subject", "-nameopt", "sname,sep_comma_plus,dn_rev,utf8"]
        shown += [] if names is None else ["-ext", "subjectAltName"]
        lines = [line.strip() for line in self._run(*shown, given=certificate).splitlines()]
        wanted = None if names is None else ", ".join(map(_shown, names))
        return lines[0] == f"subject=CN={common_name}" and wanted in (None, lines[-1])

    def certificate(
        self,
        section: str,
        common_name: str,
        key: str,
        days: int,
        *,
        signer: tuple[str, str] | None = None,
        names: list[str] | None = None,
    ) -> str:
        """Return a certificate of a key; without a signer, a certificate and its key, its own.

        Raises:
            PkiError: openssl fails.
        """
        text = _CONFIGURATION.format(
            common_name=common_name, names=",".join(map(_alternative, names or ["localhost"]))
        )
        with tempfile.TemporaryDirectory() as folder:  # which is its owner's alone
            paths = [os.path.join(folder, name) for name in ("cnf", "key", "req", "ca", "ca.key")]
            for path, content in zip(paths, (text, key, "", *(signer or ("", ""))), strict=True):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            configuration, own, request, authority, authority_key = paths
            asked = ("-utf8", "-config", configuration, "-key", own, "-out", request)
            self._run("req", "-new", *asked)
            by = ("-CA", authority, "-CAkey", authority_key) if signer else ("-signkey", own)
            # openssl 1.1 would keep a file of serial numbers beside the authority.
            serial = ("-set_serial", f"0x{os.urandom(16).hex()}")
            extensions = ("-extfile", configuration, "-extensions", section)
            lasting = ("-days", str(days), "-sha256")
            return self._run("x509", "-req", "-in", request, *by, *serial, *extensions, *lasting)

    def _asked(self, *arguments: str, given: str) -> str:
        status, out, _ = self._call(*arguments, given=given)
        return "" if status else out

    def _call(self, *arguments: str, given: str = "") -> tuple[int, str, str]:
        done = subprocess.run(
            [self._program, *arguments],
            input=given, capture_output=True, check=False, encoding="utf-8", errors="replace",
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def _run(self, *arguments: str, given: str = "") -> str:
        status, out, error = self._call(*arguments, given=given)
        if status:
            raise PkiError(f"openssl {' '.join(arguments)}: {error.strip()}")
        return out


def _alternative(name: str) -> str:
    """Return a subject alternative name as openssl's configuration wants it."""
    return f"IP:{name}" if _address(name) else f"DNS:{name}"


def _shown(name: str) -> str:
    """Return a subject alternative name as openssl prints it: IPv6 in eight groups, upper case."""
    address = _address(name)
    if address is None:
        return f"DNS:{name}"
    if address.version == 4:
        return f"IP Address:{address}"
    groups = (f"{int(group, 16):X}" for group in address.exploded.split(":"))
    return f"IP Address:{':'.join(groups)}"


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
