"""Assembles a release of this version: `make release`, into dist/release/VERSION.

    release.py [--output FOLDER] [--arch x86_64 …] [--python 3.11 …] [--sign KEY]

The version stands in gpustack/__init__.py alone. A release holds our wheel, the archive of the
bundle, the collection, RELEASE-NOTES.md (the version's section of CHANGELOG.md, the steps of an
upgrade first), THIRD-PARTY-NOTICES.txt (the licences of the packages in the bundle, by the
installed packages' own metadata), sbom.cdx.json (what the bundle brings, CycloneDX) and SHA256SUMS;
and all of them once more as one archive, for sites without a route, with its signature by
`ssh-keygen -Y sign` where a key is given. unpack.py checks and unpacks that. The same sources give
the same bytes.
"""

import argparse
import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence

import bundle
import collection
import sbom
import unpack

# What stands in a release; a folder with anything else is not replaced by one.
PARTS = (
    *("*-NOTES.*", "*-NOTICES.*", "SHA256SUMS", "sbom.cdx.json"),
    *("unpack.py", "gpustack*.tar.sig"),
    *("gpustack*.whl", "gpustack*.tar", "gpustack*.tar.gz"),
)
# Sections of Keep a Changelog that an upgrade depends on.
UPGRADE = ("Changed", "Deprecated", "Removed", "Security")
LICENCES = re.compile(r"(^|/)(licen[cs]e|copying|notice|authors)[^/]*$", re.IGNORECASE)


def notes(changelog: str, release: str) -> str:
    """Return the notes of a release: the steps of an upgrade, then the rest.

    Raises:
        BundleError: the changelog has no dated section for it.
    """
    heading = rf"^## \[{re.escape(release)}\] - (\d{{4}}-\d{{2}}-\d{{2}})\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise bundle.BundleError(
            f"CHANGELOG.md has no section `## [{release}] - YYYY-MM-DD`: name what is released"
        )
    date, text = found.groups()
    parts = re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    upgrade = [(name, body) for name, body in parts if name in UPGRADE]
    others = [(name, body) for name, body in parts if name not in UPGRADE]
    lines = [f"# gpustack {release} ({date})\n"]
    if upgrade:
        lines.append("# Before you upgrade\n")
    lines += [f"## {name}\n{body.strip()}\n" for name, body in upgrade]
    if upgrade and others:
        lines.append("# What else is new\n")
    lines += [f"## {name}\n{body.strip()}\n" for name, body in others]
    return "\n".join(lines)


def notices(lock: str) -> str:
    """Return names, versions and licences of all packages of a lock file, with their own texts.

    Raises:
        BundleError: a package isn't installed, or names no licence.
    """
    pins = sorted(re.findall(r"^([a-zA-Z0-9._-]+)==(\S+)", lock, re.MULTILINE))
    texts = ["What the bundle of gpustack brings along, each under its own licence.\n"]
    for name, pinned in pins:
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise bundle.BundleError(f"{name} is not installed: run `make setup` first") from None
        if found.version != pinned:
            raise bundle.BundleError(f"{name} {found.version} is installed, {pinned} is locked")
        licence = _licence(found)
        if not licence:
            raise bundle.BundleError(f"{name} {pinned} says nothing of its licence")
        texts.append(f"{'=' * 80}\n{name} {pinned}: {licence}\n")
        texts += [f"--- {path}\n{text.strip()}\n" for path, text in _texts(found)]
    return "\n".join(texts)


def licence_of(name: str) -> str:
    """Return the licence of an installed package."""
    return _licence(importlib.metadata.distribution(name))


def _licence(package: importlib.metadata.Distribution) -> str:
    metadata = package.metadata
    for field in ("License-Expression", "License"):
        words = str(metadata.get(field) or "").strip()
        if words and "\n" not in words:
            return words
    kinds = metadata.get_all("Classifier") or []
    return ", ".join(each.rpartition(" :: ")[2] for each in kinds if each.startswith("License ::"))


def _texts(package: importlib.metadata.Distribution) -> Iterator[tuple[str, str]]:
    for path in sorted(package.files or (), key=str):
        if ".dist-info/" in str(path) and LICENCES.search(str(path)):
            yield str(path), pathlib.Path(str(path.locate())).read_text("utf-8", "replace")


def pack(folder: pathlib.Path, archive: pathlib.Path) -> None:
    """Write a folder as a tar without times and owners."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                member = tarfile.TarInfo(f"{archive.stem}/{path.relative_to(folder).as_posix()}")
                member.size = path.stat().st_size
                member.mtime = bundle.EPOCH_SECONDS
                member.mode = 0o644
                with path.open("rb") as stream:
                    tar.addfile(member, stream)


def sign(archive: pathlib.Path, key: pathlib.Path) -> None:
    """Write the archive's signature beside it, as ARCHIVE.sig.

    Raises:
        BundleError: ssh-keygen isn't there, or can't sign with that key.
    """
    command = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", unpack.NAMESPACE, str(archive)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, text=True, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise bundle.BundleError("ssh-keygen is missing: install OpenSSH's client") from None
    if done.returncode != 0:
        raise bundle.BundleError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def build(
    output: pathlib.Path,
    pythons: Sequence[str],
    architectures: Sequence[str],
    key: pathlib.Path | None = None,
) -> None:
    """Build a release beside its place and move it there when it is whole.

    Raises:
        BundleError: a part is missing, or something else lies in its place.
    """
    bundle.check_output(output, PARTS)
    release = collection.version()
    texts = {
        "RELEASE-NOTES.md": notes((bundle.ROOT / "CHANGELOG.md").read_text("utf-8"), release),
        "THIRD-PARTY-NOTICES.txt": notices(bundle.LOCK.read_text("utf-8")),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as scratch:
        made = pathlib.Path(scratch, "release")
        made.mkdir()
        for name, text in texts.items():
            (made / name).write_text(text, "utf-8")
        bundle.build_wheel(made)
        collection.build(made)
        bundle.build(pathlib.Path(scratch, "bundle"), pythons, architectures)
        pack(pathlib.Path(scratch, "bundle"), made / f"gpustack-bundle-{release}.tar")
        bill = sbom.bill(pathlib.Path(scratch, "bundle"), licence_of)
        (made / "sbom.cdx.json").write_text(json.dumps(bill, indent=2) + "\n", "utf-8")
        shutil.copyfile(pathlib.Path(unpack.__file__), made / "unpack.py")
        sums = [f"{bundle.sha256(path)}  {path.name}\n" for path in sorted(made.iterdir())]
        (made / unpack.SUMS).write_text("".join(sums), "utf-8")
        whole = pathlib.Path(scratch, f"gpustack-{release}.tar")
        pack(made, whole)
        whole.rename(made / whole.name)
        if key is not None:
            sign(made / whole.name, key)
        if output.exists():
            shutil.rmtree(output)
        made.rename(output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, build, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=bundle.ROOT / "dist" / "release" / collection.version(),
    )
    bundle.add_targets(parser)
    parser.add_argument("--sign", type=pathlib.Path, help="a key of ssh-keygen, or of its agent")
    options = parser.parse_args(arguments)
    pythons, architectures = options.python or bundle.PYTHONS, options.arch or bundle.ARCHITECTURES
    try:
        build(options.output.resolve(), pythons, architectures, options.sign)
    except bundle.BundleError as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write(f"{options.output}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
