"""An earlier release, made of its commit: its playbooks and its bundle, as a site has them."""

import pathlib
import sys
import tempfile

from tests.testbed import paths, progress

COMMIT = "e449ff5"  # "docs(changelog): 0.1.0 has its date"


def tree() -> pathlib.Path:
    """Return the folder of 0.1.0's checkout with its bundle in dist/, made once.

    Raises:
        TestbedError: git has no such commit (a shallow clone), or it doesn't build.
    """
    releases = paths.cache("releases")
    made = releases / COMMIT
    with progress.exclusive("releases"), progress.step(f"building the release of {COMMIT}"):
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=releases) as scratch:
                fresh = pathlib.Path(scratch, "tree")
                _build(fresh, pathlib.Path(scratch, "tree.tar"))
                fresh.rename(made)
    return made


def _build(fresh: pathlib.Path, archive: pathlib.Path) -> None:
    progress.call(
        ["git", "-C", paths.REPOSITORY, "archive", f"--output={archive}", COMMIT],
        log="release-archive",
    )
    fresh.mkdir()
    progress.call(["tar", "-x", "-f", archive, "-C", fresh], log="release-archive")
    progress.call(["make", "-C", fresh / "hook", f"PYTHON={sys.executable}"], log="release-hook")
    progress.call([sys.executable, fresh / "playbooks/scripts/bundle.py"], log="release-bundle")
