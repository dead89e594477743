"""A local Debian repository with the simulated driver, as a driver's vendor would have one."""

import pathlib
import shutil

from tests.testbed import paths, progress

SOURCE = paths.REPOSITORY / "tests" / "simgpu"


def folder() -> pathlib.Path:
    """Return the repository's folder; GPU hosts see it read-only."""
    return paths.cache("simgpu-repository")


def build() -> pathlib.Path:
    """Build the simulated driver's package and list it in the repository; return its folder.

    Raises:
        TestbedError: The package did not build.
    """
    target = folder()
    with progress.exclusive("simgpu-repository"), progress.step("building the simulated driver"):
        progress.call(["make", "-C", SOURCE, "deb"], log="testbed-simgpu")
        packages = sorted((SOURCE / "out").glob("*.deb"))
        if not packages:
            raise progress.TestbedError(f"make deb in {SOURCE} made no package")
        for old in target.glob("*.deb"):
            old.unlink()
        for package in packages:
            shutil.copy2(package, target)
        # Not of the target: tests keep other repositories below it.
        out = SOURCE / "out"
        listing = progress.output(["sh", "-euc", f"cd '{out}' && dpkg-scanpackages -m ."])
        (target / "Packages").write_text(listing)
    return target
