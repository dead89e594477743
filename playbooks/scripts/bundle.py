"""Builds the one folder that `site.yml` carries to hosts which have no internet.

The bundle holds the wheels of the daemons (ours, their dependencies from requirements-hosts.lock,
and pip itself, because Debian's Python lacks ensurepip) for each Python and architecture, the hook
for each architecture, and a manifest with a SHA-256 of every file. Roles compare these sums with a
host's, so the same sources must give the same bytes: archives carry no times, owners or paths.

    bundle.py [--output FOLDER] [--arch x86_64 …] [--python 3.11 …]

Layout: manifest.json, wheels/any.tar (flat: requirements.txt and the wheels of every host),
wheels/ARCH-PYTHON.tar (flat: the wheels of such hosts alone), hook/ARCH/{libvcuda.so,
gpustack-hook-selftest,ld.so.preload,layouts}. A host gets two archives of all.
"""

import argparse
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-hosts.lock"
FORMAT = 4  # whose `wheels` has archives for several Pythons and architectures
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ARCHITECTURES = ("x86_64", "aarch64")
# What stands in a bundle, of this format or of an earlier one (wheels.tar); a folder with anything
# else is not replaced by one.
PARTS = ("manifest.json", "wheels", "wheels.tar", "hook")
# The wheels without compiled code, ours and the list of all.
SHARED = "wheels/any.tar"
HOOK_FILES = ("libvcuda.so", "gpustack-hook-selftest", "layouts")
# Where the agent mounts the hook in a container; the file is mounted over /etc/ld.so.preload. The
# agent takes no build with another line.
PRELOAD = "/etc/vcuda/hook/libvcuda.so\n"
# The inputs of a wheel's build; no other file of the tree may change its bytes.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "gpustack", "extender")
# 1980-01-01, the earliest time that a zip member can carry: wheels then have no build time.
EPOCH_SECONDS = 315_532_800
# Pip takes a package's wheel for the first of these that it has; glibc 2.34 only without another.
MANYLINUX = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_34")


class BundleError(Exception):
    """The bundle can't be made; the message says what to do."""


def sha256(path: pathlib.Path) -> str:
    """Return the SHA-256 of a file in lower-case hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pip(verb: str, *arguments: str) -> None:
    """Run one pip command for exactly the packages named, and show its output only if it failed.

    Raises:
        BundleError: the program's exit status was not 0.
    """
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--no-deps", *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH_SECONDS)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        umask=0o022,
        check=False,
    )
    if done.returncode != 0:
        raise BundleError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout}")


def build_wheel(into: pathlib.Path) -> pathlib.Path:
    """Build our own wheel from a copy of its sources and return its path.

    The copy matters: setuptools builds in the tree, and a stale build folder there would bring back
    modules that no longer exist.
    """
    with tempfile.TemporaryDirectory(prefix="gpustack-wheel-") as scratch:
        tree = pathlib.Path(scratch, "tree")
        tree.mkdir()
        for name in SOURCES:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(
                    source, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
                )
            elif source.exists():
                shutil.copy2(source, tree / name)
            else:
                raise BundleError(f"{source} is missing: the wheel can't be built")
        # a checkout has modes by the umask of its user, and so have files that pip makes
        for path in tree.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        pip("wheel", "--no-build-isolation", f"--wheel-dir={into}", str(tree))
    (wheel,) = into.glob("gpustack_vcuda-*.whl")
    return wheel


def cache_folder() -> pathlib.Path:
    """Return the project's cache folder, outside the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(os.environ.get("GPUSTACK_CACHE") or pathlib.Path(base, "gpustack"))


def download_wheels(architecture: str, python: str) -> pathlib.Path:
    """Return a cached folder with every locked wheel of one architecture and Python.

    pip checks each file against the lock's hashes. The folder's name depends on all inputs, and it
    gets that name only when it is complete: an interrupted download is never taken for a whole one.

    Raises:
        BundleError: a package has no such wheel, or no index answers.
    """
    wanted = json.dumps([LOCK.read_text("utf-8"), python, architecture, MANYLINUX])
    key = hashlib.sha256(wanted.encode()).hexdigest()[:16]
    complete = cache_folder() / "host-wheels" / f"{architecture}-{python}-{key}"
    if complete.is_dir():
        return complete
    complete.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=complete.parent) as scratch:
        fresh = pathlib.Path(scratch, "wheels")
        pip(
            "download",
            "--require-hashes",
            "--only-binary=:all:",
            f"--python-version={python}",
            *(f"--platform={name}_{architecture}" for name in MANYLINUX),
            f"--dest={fresh}",
            f"--requirement={LOCK}",
        )
        fresh.rename(complete)
    return complete


def write_tar(archive: pathlib.Path, members: Iterable[pathlib.Path]) -> None:
    """Write a flat, uncompressed tar (wheels are compressed already) without times and owners."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for member in sorted(members, key=lambda path: path.name):
            information = tarfile.TarInfo(member.name)
            information.size = member.stat().st_size
            information.mtime = EPOCH_SECONDS
            information.mode = 0o644
            with member.open("rb") as stream:
                tar.addfile(information, stream)


def pack_wheels(
    bundle: pathlib.Path, pythons: Sequence[str], architectures: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """Write the archives of wheels and return our version and the manifest's entry for them.

    The entry is {pip: NAME, archives: {PATH: SHA-256}, hosts: {ARCHITECTURE: {PYTHON: {archives:
    [PATH, PATH], sum: SHA-256}}}}; a host's environment has its name by the sum of its archives.
    """
    needed = {
        target: set(download_wheels(*target).glob("*.whl"))
        for target in sorted(itertools.product(architectures, pythons))
    }
    shared = {path.name: path for path in set().union(*needed.values()) if path.match("*-any.whl")}
    (bundle / SHARED).parent.mkdir()
    version = write_shared(bundle / SHARED, shared.values())
    sums = {SHARED: sha256(bundle / SHARED)}
    hosts: dict[str, Any] = {architecture: {} for architecture, _ in needed}
    for (architecture, python), wheels in needed.items():
        archive = f"wheels/{architecture}-{python}.tar"
        write_tar(bundle / archive, (path for path in wheels if path.name not in shared))
        sums[archive] = sha256(bundle / archive)
        both = hashlib.sha256(f"{sums[SHARED]}{sums[archive]}".encode()).hexdigest()
        hosts[architecture][python] = {"archives": [SHARED, archive], "sum": both}
    (installer,) = (name for name in shared if name.startswith("pip-"))
    return version, {"pip": installer, "archives": sums, "hosts": hosts}


def write_shared(archive: pathlib.Path, wheels: Iterable[pathlib.Path]) -> str:
    """Write the archive of all hosts, with our wheel and the list, and return our version."""
    with tempfile.TemporaryDirectory(prefix="gpustack-bundle-") as scratch:
        own = build_wheel(pathlib.Path(scratch))
        version = own.name.split("-")[1]  # NAME-VERSION-PYTHON-ABI-PLATFORM.whl
        requirements = pathlib.Path(scratch, "requirements.txt")
        requirements.write_text(
            f"{LOCK.read_text('utf-8')}gpustack-vcuda=={version} --hash=sha256:{sha256(own)}\n",
            "utf-8",
        )
        write_tar(archive, [own, requirements, *wheels])
    return version


def copy_hook(bundle: pathlib.Path, architectures: Sequence[str]) -> dict[str, dict[str, str]]:
    """Copy the hook's files of each architecture and return their sums by architecture and name.

    Raises:
        BundleError: an architecture's hook has not been built.
    """
    sums: dict[str, dict[str, str]] = {}
    for architecture in sorted(architectures):
        target = bundle / "hook" / architecture
        target.mkdir(parents=True)
        for name in HOOK_FILES:
            source = ROOT / "hook" / "out" / architecture / name
            if not source.is_file():
                raise BundleError(f"{source} is missing: run `make -C hook` first")
            shutil.copyfile(source, target / name)
        (target / "ld.so.preload").write_text(PRELOAD, "utf-8")
        sums[architecture] = {path.name: sha256(path) for path in sorted(target.iterdir())}
    return sums


def hook_build(version: str, sums: Mapping[str, str]) -> str:
    """Return the name of a build of the hook, which is the name of its folder on hosts.

    The agent computes the same sum of the folder itself (gpustack/agent/node/hook_build.py), or
    refuses to give the folder to containers.
    """
    lines = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    return f"{version}-{hashlib.sha256(lines.encode()).hexdigest()[:8]}"


def check_output(output: pathlib.Path, parts: Sequence[str]) -> None:
    """Let an output be replaced only where it has no other parts than these (shell patterns).

    Raises:
        BundleError: it is a file, or a folder with something else.
    """
    if output.exists() and not output.is_dir():
        raise BundleError(f"{output} is no folder: name one that is empty or not there")
    others = sorted(
        path.name
        for path in (output.iterdir() if output.exists() else ())
        if not any(path.match(part) for part in parts)
    )
    if others:
        raise BundleError(
            f"{output} has {', '.join(others[:3])}{', ...' if others[3:] else ''} in it and would "
            "be replaced: name a folder that is empty or not there"
        )


def build(output: pathlib.Path, pythons: Sequence[str], architectures: Sequence[str]) -> None:
    """Build the bundle beside its place and move it there when it is whole.

    Raises:
        BundleError: a part is missing, or something else lies in its place.
    """
    check_output(output, PARTS)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as scratch:
        bundle = pathlib.Path(scratch, "bundle")
        bundle.mkdir()
        sums = copy_hook(bundle, architectures)
        version, wheels = pack_wheels(bundle, pythons, architectures)
        manifest = {
            "format": FORMAT,
            "version": version,
            "pythons": sorted(pythons),
            "architectures": sorted(architectures),
            "hook": {
                architecture: {"build": hook_build(version, files), "files": files}
                for architecture, files in sums.items()
            },
            "wheels": wheels,
        }
        (bundle / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
        if output.exists():
            shutil.rmtree(output)
        bundle.rename(output)


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose hosts; None stands for all."""
    what = {"--arch": f"as `uname -m` says; default {', '.join(ARCHITECTURES)}",
            "--python": f"hosts' Python, 3.N; default {', '.join(PYTHONS)}"}  # fmt: skip
    for option, text in what.items():
        parser.add_argument(option, action="append", help=text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, build, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "dist" / "gpustack-bundle")
    add_targets(parser)
    options = parser.parse_args(arguments)
    try:
        build(options.output.resolve(), options.python or PYTHONS, options.arch or ARCHITECTURES)
    except BundleError as error:
        sys.stderr.write(f"bundle: {error}\n")
        return 1
    sys.stdout.write(f"{options.output}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
