"""Build Kubernetes' programs from their Go modules into the cache.

The modules are ``tests/kubernetes/v*/go.mod``. A build is kept under a hash of its inputs, and each
program is moved into place when it is whole, so a killed build goes on where it was.
"""

import dataclasses
import hashlib
import os
import pathlib

from tests.testbed import paths, progress
from tests.testbed.artifacts import golang

MODULES = paths.REPOSITORY / "tests" / "kubernetes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of Kubernetes and the programs that the testbed takes from it."""

    minor: str
    version: str
    programs: tuple[str, ...]

    @property
    def module(self) -> pathlib.Path:
        """Return the folder of the Go module that builds it."""
        return MODULES / f"v{self.minor}"

    @property
    def linker_flags(self) -> str:
        """Return the linker's flags: no debug tables, and the version that /version answers."""
        major, minor = self.minor.split(".")
        package = "k8s.io/component-base/version"
        return (
            f"-s -w -X {package}.gitVersion={self.version}"
            f" -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
        )

    @property
    def key(self) -> str:
        """Return the name of the build in the cache: a hash of its inputs."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((self.module / name).read_bytes())
        digest.update(self.linker_flags.encode())
        return digest.hexdigest()[:16]

    @property
    def bin(self) -> pathlib.Path:
        """Return the folder of the built programs."""
        return paths.cache("kubernetes", self.key, "bin")

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the programs that are not built yet."""
        return tuple(program for program in self.programs if not (self.bin / program).exists())


# Which release the testbed runs; nothing else names a version of it.
VARIABLE = "TESTBED_KUBERNETES"
_ALL = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")
LATEST = Release(minor="1.37", version="v1.37.2", programs=_ALL)
OLDER = Release(minor="1.34", version="v1.34.4", programs=_ALL)
# the last scheduler that reads the Policy file of the extender's older users
POLICY = Release(minor="1.22", version="v1.22.17", programs=("kube-scheduler",))


def chosen(minor: str | None) -> Release:
    """Return the release of a cluster: the latest one, unless a minor version is asked for.

    Raises:
        TestbedError: No module builds that version.
    """
    releases = {release.minor: release for release in (LATEST, OLDER)}
    if not minor:
        return LATEST
    if minor not in releases:
        known = " or ".join(releases)
        raise progress.TestbedError(f"{VARIABLE}={minor}: the testbed has {known}")
    return releases[minor]


CURRENT = chosen(os.environ.get(VARIABLE))


def build(release: Release) -> pathlib.Path:
    """Build the missing programs of a release and return their folder.

    Raises:
        TestbedError: No Go tool chain, or a program did not build.
    """
    if not release.missing:
        return release.bin
    go = golang.ensure()
    with progress.exclusive(f"kubernetes-{release.minor}"):
        missing = release.missing
        for number, program in enumerate(missing, start=1):
            what = (
                f"building {program} {release.version} ({number} of {len(missing)}{_hint(number)})"
            )
            with progress.step(what):
                _build_program(go, release, program)
    return release.bin


def _hint(number: int) -> str:
    """Say why the first program takes so long: it compiles what the others share."""
    return "; about 4 minutes on two cores" if number == 1 else ""


def _build_program(go: pathlib.Path, release: Release, program: str) -> None:
    partial = release.bin / f".{program}.{os.getpid()}"
    progress.call(
        [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
         "-ldflags", release.linker_flags, "-o", partial, f"k8s.io/kubernetes/cmd/{program}"],
        log=f"testbed-build-{program}-{release.minor}",
        directory=release.module,
        environment={"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""},
    )  # fmt: skip
    partial.rename(release.bin / program)
