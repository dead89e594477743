"""Makes the certificates between one kube-scheduler and the extender beside it."""

from __future__ import annotations

import contextlib
import grp
import ipaddress
import os
import stat
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: gpustack_certificates
short_description: Make and renew an authority, the extender's certificate and the scheduler's
description:
  - Files in C(folder), C(ca.crt), C(ca.key), C(extender.crt) and C(extender.key); in its folder
    C(scheduler), which a static pod can mount, C(ca.crt), C(client.crt) and C(client.key).
  - A certificate is made anew when it is missing, not its key's, not the authority's, not valid
    yet, for another name, or when fewer than C(renew_days) remain. A new authority brings new
    certificates. Keys that lie there with another owner or mode get their own again.
options:
  folder: {type: path, required: true, description: Where they lie.}
  names: {type: list, elements: str, required: true, description: Names in the extender's.}
  client_name: {type: str, required: true, description: Common name of the scheduler.}
  days: {type: int, required: true, description: How long new ones are valid.}
  renew_days: {type: int, required: true, description: With fewer days left, new ones are made.}
  group: {type: str, required: true, description: Group that may read the extender's key.}
  scheduler_group: {type: str, required: true, description: Group that may read the scheduler's.}
"""

_DAY_SECONDS = 86_400
_KEY_MODE = 0o640
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


class Pki:
    """One folder of certificates, and openssl."""

    def __init__(self, module: AnsibleModule) -> None:
        """Keep the arguments; read no file yet."""
        self._module = module
        self._folder: str = module.params["folder"]
        self._names = ",".join(map(_alternative, module.params["names"]))
        self._openssl: str = module.get_bin_path("openssl", required=True)

    def renew(self) -> list[str]:
        """Make missing and ending files; returns those made (or, in check mode, to be made)."""
        made: list[str] = []
        if not self._is_sound("ca.crt", "ca.key"):
            made.append("ca.crt")
            self._make("authority", "gpustack-extender-ca", "ca.crt", "ca.key", "root")
        client_name, params = self._module.params["client_name"], self._module.params
        for section, common_name, certificate, key, group in (
            ("server", "gpustack-extender", "extender.crt", "extender.key", params["group"]),
            (
                "client",
                client_name,
                "scheduler/client.crt",
                "scheduler/client.key",
                params["scheduler_group"],
            ),
        ):
            if made[:1] == ["ca.crt"] or not self._serves(section, common_name, certificate, key):
                made.append(certificate)
                self._make(section, common_name, certificate, key, group)
        if made or self._read("ca.crt") != self._read("scheduler/ca.crt"):
            made.append("scheduler/ca.crt")
            if not self._module.check_mode:
                self._write("scheduler/ca.crt", self._read("ca.crt"), 0o644, "root")
        keys = {
            "ca.key": "root",
            "extender.key": params["group"],
            "scheduler/client.key": params["scheduler_group"],
        }
        return [*made, *filter(lambda key: self._give(key, keys[key]), keys)]

    def _give(self, key: str, group: str) -> bool:
        """Give a key that lies there its owner and mode; returns whether it had others."""
        path = self._path(key)
        try:
            found = os.stat(path)
        except FileNotFoundError:  # check mode makes none
            return False
        wanted = (0, grp.getgrnam(group).gr_gid, _KEY_MODE)
        if (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == wanted:
            return False
        if not self._module.check_mode:
            os.chown(path, *wanted[:2])
            os.chmod(path, _KEY_MODE)
        return True

    def _read(self, name: str) -> bytes:
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _is_sound(self, certificate: str, key: str) -> bool:
        """Say whether a certificate is its key's and the authority's, valid already, and lasts."""
        path, authority = self._path(certificate), self._path("ca.crt")
        seconds = str(self._module.params["renew_days"] * _DAY_SECONDS)
        if not self._asks("x509", "-noout", "-checkend", seconds, "-in", path):
            return False
        # A run that ended between the two files, or a file from a backup, leaves another's key.
        # (Without a password, openssl would ask the terminal for one.)
        asked = ("pkey", "-pubout", "-passin", "pass:", "-in", self._path(key))
        status, public, _ = self._call(*asked)
        return (
            status == 0
            and public == self._run("x509", "-noout", "-pubkey", "-in", path)
            and self._asks("verify", "-CAfile", authority, path)
        )

    def _serves(self, section: str, common_name: str, certificate: str, key: str) -> bool:
        """Say whether a certificate is sound, and has the wanted names."""
        if not self._is_sound(certificate, key):
            return False
        # RFC 2253 without its escapes
        form = "sname,sep_comma_plus,dn_rev,utf8"
        shown = ["x509", "-noout", "-subject", "-nameopt", form, "-in", self._path(certificate)]
        if section == "server":
            shown += ["-ext", "subjectAltName"]
        text = self._run(*shown)
        lines = [line.strip() for line in text.splitlines()]
        wanted = ", ".join(map(_shown, self._module.params["names"]))
        return lines[0] == f"subject=CN={common_name}" and (
            section != "server" or lines[-1] == wanted
        )

    def _make(self, section: str, common_name: str, certificate: str, key: str, group: str) -> None:
        if self._module.check_mode:
            return
        with tempfile.TemporaryDirectory() as folder:
            configuration = os.path.join(folder, "openssl.cnf")
            new_key, request, new = (os.path.join(folder, name) for name in ("key", "req", "crt"))
            with open(configuration, "w", encoding="ascii") as file:
                file.write(_CONFIGURATION.format(common_name=common_name, names=self._names))
            curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
            self._run("genpkey", *curve, "-out", new_key)
            asked = ("req", "-new", "-config", configuration, "-key", new_key, "-out", request)
            self._run(*asked)
            signer = (
                ("-signkey", new_key)
                if section == "authority"
                else ("-CA", self._path("ca.crt"), "-CAkey", self._path("ca.key"))
            )
            # openssl 1.1 would keep a file of serial numbers beside the authority.
            serial = ("-set_serial", f"0x{os.urandom(16).hex()}")
            extensions = ("-extfile", configuration, "-extensions", section)
            days = ("-days", str(self._module.params["days"]), "-sha256")
            self._run("x509", "-req", "-in", request, *signer, *serial, *extensions, *days,
                      "-out", new)  # fmt: skip
            for name, source, mode in ((key, new_key, _KEY_MODE), (certificate, new, 0o644)):
                with open(source, "rb") as file:
                    self._write(name, file.read(), mode, group)

    def _write(self, name: str, content: bytes, mode: int, group: str) -> None:
        """Replace a file in one step, so that each reader gets the whole file with its mode."""
        path = self._path(name)
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchown(descriptor, 0, grp.getgrnam(group).gr_gid)
                os.fchmod(descriptor, mode)
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    def _asks(self, *arguments: str) -> bool:
        return self._call(*arguments)[0] == 0

    def _call(self, *arguments: str) -> tuple[int, str, str]:
        found: tuple[int, str, str] = self._module.run_command([self._openssl, *arguments])
        return found

    def _run(self, *arguments: str) -> str:
        status, out, error = self._call(*arguments)
        if status:
            self._module.fail_json(msg=f"openssl {' '.join(arguments)}: {error.strip()}")
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


def main() -> None:
    """Run as Ansible's module."""
    options: dict[str, dict[str, Any]] = {
        "folder": {"type": "path", "required": True},
        "names": {"type": "list", "elements": "str", "required": True},
        "client_name": {"type": "str", "required": True},
        "days": {"type": "int", "required": True},
        "renew_days": {"type": "int", "required": True},
        "group": {"type": "str", "required": True},
        "scheduler_group": {"type": "str", "required": True},
    }
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    try:
        made = Pki(module).renew()
    except (OSError, KeyError, UnicodeError) as error:
        module.fail_json(msg=f"certificates in {module.params['folder']}: {error}")
    module.exit_json(changed=bool(made), made=made)


if __name__ == "__main__":
    main()
