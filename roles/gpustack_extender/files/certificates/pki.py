"""The certificates between one kube-scheduler and the extender beside it.

kube-scheduler reads its own certificate anew for new connections (client-go's
`cachingCertificateLoader`), and the authorities only at its start; the extender reads all of them
anew. So certificates are renewed under both, and a change of the authority takes two steps, with a
restart of the scheduler after each: `trust`, and `finish`. Where no authority can sign, `make`
makes one, which a restart follows, too; the timer's `renew`, which none follows, fails.

`ca.crt` has the authorities that both sides trust. `ca.key` is the key of the one among them that
signs. Between the steps `ca-next.key` is the next one's: nothing is signed by it before the
scheduler trusts it. So a run that ends at any point leaves certificates that both sides take (but
between a new key and its certificate); the timer mends them, and the same run, done again, ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from openssl import OpenSsl, PkiError

_KEY_MODE = 0o640
_WARN_DAYS = 180  # of the authority, for whose change a person starts a run
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


class _Leaf(NamedTuple):
    section: str
    common_name: str
    names: list[str] | None
    certificate: str
    key: str
    group: str


class Pki:
    """One folder of certificates.

    Each step returns the names of the files that it made, or would make where it only looks.
    """

    def __init__(self, settings: dict[str, Any], *, check: bool) -> None:
        """Keep the settings; read no file yet.

        Args:
            settings: `folder`, where they lie; `names` of the extender, and `client_name` of the
                scheduler; `days` that new certificates last, `renew_days` below which they are
                made anew, `authority_days` that a new authority lasts; `group` that may read the
                extender's keys, and `scheduler_group` that may read the scheduler's.
            check: look only.

        Raises:
            PkiError: there is no openssl.
        """
        self._settings, self._check, self._openssl = settings, check, OpenSsl()
        group, theirs = settings["group"], settings["scheduler_group"]
        client, client_key = "scheduler/client.crt", "scheduler/client.key"
        self._leaves = (
            _Leaf(
                "server", "gpustack-extender", settings["names"],
                "extender.crt", "extender.key", group,
            ),
            _Leaf("client", settings["client_name"], None, client, client_key, theirs),
            # what the extender shows the agents that it reads metrics of; it decides nothing
            _Leaf("client", "gpustack-extender-reader", None, "reader.crt", "reader.key", group),
        )  # fmt: skip

    def renew(self) -> list[str]:
        """Renew what is near its end, under the authority that signs: the timer's step.

        Raises:
            PkiError: none can sign. A scheduler that runs wouldn't trust another.
        """
        if not self._signer():
            raise PkiError(
                f"{self._path('ca.key')} is no key of an authority of {self._path('ca.crt')} that "
                "is valid now: nothing was changed. Look at this host's clock; then run site.yml, "
                "which makes another authority and restarts the scheduler"
            )
        return self.make()

    def make(self) -> list[str]:
        """Make what is missing or near its end; authorities that are valid stay."""
        made = self._require_signer()
        signer = "" if "ca.crt" in made and self._check else self._signer()
        for leaf in self._leaves:
            if not (signer and self._serves(leaf, signer)):
                made.append(leaf.certificate)
                if not self._check:
                    self._make(leaf, signer)
        made += self._copy_authorities(changed="ca.crt" in made)
        keys = {"ca.key": "root", **{leaf.key: leaf.group for leaf in self._leaves}}
        return [*made, *filter(lambda key: self._give(key, keys[key]), keys)]

    def trust(self) -> list[str]:
        """Let both sides trust a next authority, which signs nothing yet."""
        made = self.make()
        if "ca.crt" in made or self._is_changing():
            return made
        if not self._check:
            key, certificate = self._new_authority()
            self._write("ca-next.key", key, _KEY_MODE, "root")
            self._write("ca.crt", f"{self._signer().rstrip()}\n{certificate}", 0o644, "root")
        return [*made, "ca.crt", *self._copy_authorities(changed=True)]

    def finish(self) -> list[str]:
        """Let the next authority sign, and both sides forget the one before."""
        changing = self._is_changing()
        if changing and not self._check:
            self._promote()
        made = self.make()
        if not changing:
            return made
        if not self._check:
            self._write("ca.crt", self._signer(), 0o644, "root")
        return [*made, "ca.crt", *self._copy_authorities(changed=True)]

    def warning(self) -> str:
        """Return what a person has to do soon; "" for nothing."""
        if self._openssl.lasts(self._signer(), _WARN_DAYS):
            return ""
        return f"{self._path('ca.crt')} ends within {_WARN_DAYS} days: run rotate.yml"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep another run out meanwhile: the timer's, or Ansible's."""
        descriptor = os.open(self._settings["folder"], os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _require_signer(self) -> list[str]:
        """Make an authority where none can sign: no connection is made by the one before."""
        if self._signer():
            return []
        if self._authority_of("ca-next.key"):
            if not self._check:
                self._promote()
            return ["ca.key"]
        if not self._check:
            key, certificate = self._new_authority()
            self._write("ca.key", key, _KEY_MODE, "root")
            self._write("ca.crt", certificate, 0o644, "root")
        return ["ca.crt"]

    def _is_changing(self) -> bool:
        """Say whether a run has begun to change the authority, and not ended."""
        if self._authority_of("ca-next.key"):
            return True
        *before, newest = self._trusted() or [""]
        return bool(before) and newest == self._signer()

    def _promote(self) -> None:
        if self._authority_of("ca-next.key"):
            os.replace(self._path("ca-next.key"), self._path("ca.key"))

    def _copy_authorities(self, *, changed: bool) -> list[str]:
        """Give the scheduler, which sees its own folder only, what the extender trusts."""
        if not changed and self._read("ca.crt") == self._read("scheduler/ca.crt"):
            return []
        if not self._check:
            self._write("scheduler/ca.crt", self._read("ca.crt"), 0o644, "root")
        return ["scheduler/ca.crt"]

    def _trusted(self) -> list[str]:
        return _BLOCK.findall(self._read("ca.crt"))

    def _signer(self) -> str:
        return self._authority_of("ca.key")

    def _authority_of(self, key: str) -> str:
        """Return the certificate of an authority's key, if it is trusted and valid; else ""."""
        public = self._openssl.public(self._read(key))
        for each in self._trusted() if public else ():
            if self._openssl.public_of(each) == public and self._openssl.is_signed(each, each):
                return each
        return ""

    def _new_authority(self) -> tuple[str, str]:
        """Return key and certificate of one whose name no other has: it tells their issuer."""
        key, name = self._openssl.new_key(), f"gpustack-extender-ca-{os.urandom(4).hex()}"
        days = self._settings["authority_days"]
        return key, self._openssl.certificate("authority", name, key, days)

    def _is_pair(self, leaf: _Leaf, signer: str) -> bool:
        """Say whether a certificate is its key's and the signer's, in its time or not."""
        text = self._read(leaf.certificate)
        # A run that ended between the two files, or a file from a backup, leaves another's key.
        public = self._openssl.public_of(text)
        return (
            public != ""
            and public == self._openssl.public(self._read(leaf.key))
            and self._openssl.is_signed(text, signer, at_any_time=True)
        )

    def _serves(self, leaf: _Leaf, signer: str) -> bool:
        """Say whether a certificate is its key's and the signer's, lasts, and has its names."""
        text = self._read(leaf.certificate)
        return (
            self._is_pair(leaf, signer)
            and self._openssl.is_signed(text, signer)
            and self._openssl.lasts(text, self._settings["renew_days"])
            and self._openssl.has_names(text, leaf.common_name, leaf.names)
        )

    def _make(self, leaf: _Leaf, signer: str) -> None:
        # With its key, one step changes the certificate: no reader meets a pair that is none. A
        # new authority brings new keys.
        keeps = self._is_pair(leaf, signer)
        key = self._read(leaf.key) if keeps else self._openssl.new_key()
        made = self._openssl.certificate(
            leaf.section, leaf.common_name, key, self._settings["days"],
            signer=(signer, self._read("ca.key")), names=leaf.names,
        )  # fmt: skip
        if not keeps:
            self._write(leaf.key, key, _KEY_MODE, leaf.group)
        self._write(leaf.certificate, made, 0o644, leaf.group)

    def _read(self, name: str) -> str:
        try:
            with open(self._path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _path(self, name: str) -> str:
        return os.path.join(self._settings["folder"], name)

    def _give(self, key: str, group: str) -> bool:
        """Give a key that lies there its owner and mode; returns whether it had others."""
        path = self._path(key)
        try:
            found = os.stat(path)
        except FileNotFoundError:  # one that only looks makes none
            return False
        wanted = (0, grp.getgrnam(group).gr_gid, _KEY_MODE)
        if (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == wanted:
            return False
        if not self._check:
            os.chown(path, *wanted[:2])
            os.chmod(path, _KEY_MODE)
        return True

    def _write(self, name: str, content: str, mode: int, group: str) -> None:
        """Replace a file in one step, so that each reader gets the whole file with its mode."""
        path = self._path(name)
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                os.fchown(descriptor, 0, grp.getgrnam(group).gr_gid)
                os.fchmod(descriptor, mode)
                file.write(content)
                file.flush()
                # a host that loses power keeps the one before, or this one whole
                os.fsync(descriptor)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
