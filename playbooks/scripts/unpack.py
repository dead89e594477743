#!/usr/bin/env python3
"""Unpacks a signed release on a controller without a route, once all of it has been checked.

    unpack.py --signers FILE --identity NAME ARCHIVE FOLDER

ARCHIVE.sig lies beside the archive. FILE has the keys of who may sign, as ssh-keygen(1) has them
under ALLOWED SIGNERS: `NAME namespaces="gpustack-release" ssh-ed25519 AAAA…`. Where signature, sums
or length are wrong nothing is written. It needs Python 3.11 and OpenSSH's ssh-keygen alone.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence

# A signature of another of a key's uses (a commit, a letter) is none of a release.
NAMESPACE = "gpustack-release"
SUMS = "SHA256SUMS"


class UnpackError(Exception):
    """The archive isn't unpacked; the message says what to do."""


def check_signature(archive: pathlib.Path, signers: pathlib.Path, identity: str) -> None:
    """Let pass an archive that one of the signers has signed.

    Raises:
        UnpackError: there is no signature, or not one of these bytes by that identity.
    """
    signature = archive.with_name(f"{archive.name}.sig")
    for path in (archive, signature, signers):
        if not path.is_file():
            raise UnpackError(f"{path} is missing: copy it here again")
    command = [
        "ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", identity, "-n", NAMESPACE,
        "-s", str(signature),
    ]  # fmt: skip
    try:
        with archive.open("rb") as stream:
            done = subprocess.run(
                command, stdin=stream, text=True, capture_output=True, check=False
            )
    except FileNotFoundError:
        raise UnpackError("ssh-keygen is missing: install OpenSSH's client") from None
    if done.returncode != 0:
        said = " ".join(f"{done.stdout} {done.stderr}".split())
        raise UnpackError(
            f"{archive}: the signature is not one of {identity} on these bytes ({said}): "
            "the archive was changed or cut, or another has signed it; fetch both files again"
        )


def check_sums(archive: pathlib.Path) -> dict[str, str]:
    """Read all of an archive and compare it with its sums; returns each file's SHA-256.

    Raises:
        UnpackError: a file is missing, cut, of another sum, in no sum, or no plain file.
    """
    found: dict[str, str] = {}
    listed = ""
    try:
        with tarfile.open(archive, "r:") as tar:
            for member in tar:
                name = pathlib.PurePosixPath(member.name)
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None or len(name.parts) != 2 or ".." in name.parts:
                    raise UnpackError(f"{archive}: {member.name} is no plain file of a release")
                if name.name in found:
                    raise UnpackError(f"{archive}: {member.name} is there twice: fetch it again")
                found[name.name] = hashlib.file_digest(stream, "sha256").hexdigest()
                if name.name == SUMS:
                    stream.seek(0)
                    listed = stream.read().decode()
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise UnpackError(f"{archive} is cut or no archive ({error}): fetch it again") from error
    wanted = {name: sum_ for sum_, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", listed, re.M)}
    compared = {*wanted, *found} - {SUMS}
    wrong = sorted(name for name in compared if wanted.get(name) != found.get(name))
    if not wanted or wrong:
        raise UnpackError(
            f"{archive}: {', '.join(wrong) or SUMS} is missing, or not as {SUMS} has it: "
            "fetch it again"
        )
    return found


def unpack(archive: pathlib.Path, folder: pathlib.Path, signers: pathlib.Path, who: str) -> None:
    """Check an archive, then write its files into a folder that isn't there yet.

    Raises:
        UnpackError: it is not as it was signed, or the folder is there.
    """
    if folder.exists():
        raise UnpackError(f"{folder} is there: name a folder that isn't")
    check_signature(archive, signers, who)
    sums = check_sums(archive)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        whole = pathlib.Path(scratch, "release")
        whole.mkdir(mode=0o755)
        with tarfile.open(archive, "r:") as tar:
            for member in tar:
                target = whole / pathlib.PurePosixPath(member.name).name
                stream = tar.extractfile(member)
                if stream is not None:
                    with target.open("wb") as file:
                        shutil.copyfileobj(stream, file)
        written = {path.name: sha256(path) for path in whole.iterdir()}
        if written != sums:
            raise UnpackError(f"{archive} has changed since it was checked: fetch it again")
        whole.rename(folder)


def sha256(path: pathlib.Path) -> str:
    """Return the SHA-256 of a file in lower-case hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, check, unpack, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--signers", type=pathlib.Path, required=True, help="keys of who may sign")
    parser.add_argument("--identity", required=True, help="who has to have signed")
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, help="not there yet")
    options = parser.parse_args(arguments)
    try:
        unpack(options.archive, options.folder, options.signers, options.identity)
    except (UnpackError, OSError) as error:
        sys.stderr.write(f"unpack: {error}\n")
        return 1
    sys.stdout.write(f"{options.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
