"""Files of Debian packages, fetched by apt into the cache: other drivers, other C libraries.

apt checks them by Debian's signatures, as it does for the machine itself, but works in folders of
its own: the machine's sources, lists and packages are left alone.
"""

import dataclasses
import os
import pathlib
import platform
import shutil
import subprocess

import pytest

from tests.testbed import paths, progress

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of a Debian release, at the version that the release has today."""

    suite: str
    name: str
    component: str = "main"


def unpacked(package: Package) -> pathlib.Path:
    """Return the folder that holds a package's files; fetched once, then kept.

    The test is skipped without a Debian archive to fetch from; under CI, where no developer would
    read the reason, it fails.
    """
    if platform.machine() != "x86_64":
        pytest.skip(f"the packages are for x86-64, this is {platform.machine()}: run it on x86-64")
    folder = paths.cache("debian") / f"{package.suite}-{package.name}"
    with progress.exclusive(folder.name):
        if not folder.exists():
            try:
                # two packages of one release share apt's folder
                with progress.exclusive(f"apt-{package.suite}-{package.component}"):
                    _fetch(package, folder)
            except progress.TestbedError as error:
                give_up(
                    f"{package.name} of Debian {package.suite} can't be fetched: {error}; needed:"
                    f" apt-get, {KEYRING} (Debian's debian-archive-keyring) and a mirror that this"
                    " machine reaches, which GPUSTACK_TESTBED_MIRROR may name"
                )
    return folder


def give_up(why: str) -> None:
    """End the test: skipped on a developer's machine, failed under CI."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def _fetch(package: Package, folder: pathlib.Path) -> None:
    apt = paths.cache("debian", "apt", f"{package.suite}-{package.component}")
    options = _options(apt, package, _mirror())
    progress.call(["apt-get", *options, "update"], log=f"apt-{package.suite}")
    for left in apt.glob("*.deb"):
        left.unlink()
    fetch = ["apt-get", *options, "download", package.name]
    progress.call(fetch, log=f"apt-{package.name}", directory=apt)
    (archive,) = apt.glob("*.deb")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    progress.call(["dpkg-deb", "-x", archive, partial], log=f"dpkg-{package.name}")
    archive.unlink()
    partial.rename(folder)


def _options(apt: pathlib.Path, package: Package, mirror: str) -> list[str]:
    for name in ("lists/partial", "archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    source = f"deb [arch=amd64 signed-by={KEYRING}] {mirror} {package.suite} {package.component}\n"
    (apt / "archive.list").write_text(source)
    (apt / "status").touch()
    given = {
        "Dir::State": apt,
        "Dir::State::Lists": apt / "lists",
        "Dir::State::Status": apt / "status",
        "Dir::Cache": apt,
        "Dir::Etc::SourceList": apt / "archive.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",  # _apt may not write into a user's home
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
    }
    return [f"--option={name}={value}" for name, value in given.items()]


def _mirror() -> str:
    """Return the archive that this machine uses, or the one that the environment names."""
    named = os.environ.get("GPUSTACK_TESTBED_MIRROR")
    if named:
        return named
    if shutil.which("apt-get") is None or not KEYRING.exists():
        raise progress.TestbedError("this isn't a Debian machine")
    release = platform.freedesktop_os_release()
    command = ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        suite, component, uri = line.split(maxsplit=2)
        if [release["ID"], suite, component] == ["debian", release["VERSION_CODENAME"], "main"]:
            return uri
    raise progress.TestbedError("GPUSTACK_TESTBED_MIRROR must name a Debian mirror on this machine")
