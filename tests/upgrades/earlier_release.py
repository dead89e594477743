"""An earlier release, made of its commit: its playbooks and its bundle, as a site has them."""

import collections.abc
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
    return _made(COMMIT, _build_bundle)


def source() -> pathlib.Path:
    """Return the folder of 0.1.0's checkout with the tests' variant of its hook, made once.

    Raises:
        TestbedError: as `tree`.
    """
    return _made(f"{COMMIT}-source", _build_test_hook)


def _made(name: str, build: collections.abc.Callable[[pathlib.Path], None]) -> pathlib.Path:
    releases = paths.cache("releases")
    made = releases / name
    with progress.exclusive("releases"), progress.step(f"building the release {name}"):
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=releases) as scratch:
                fresh = pathlib.Path(scratch, "tree")
                _archive(fresh, pathlib.Path(scratch, "tree.tar"))
                build(fresh)
                fresh.rename(made)
    return made


def _archive(fresh: pathlib.Path, archive: pathlib.Path) -> None:
    progress.call(
        ["git", "-C", paths.REPOSITORY, "archive", f"--output={archive}", COMMIT],
        log="release-archive",
    )
    fresh.mkdir()
    progress.call(["tar", "-x", "-f", archive, "-C", fresh], log="release-archive")


def _build_bundle(fresh: pathlib.Path) -> None:
    progress.call(["make", "-C", fresh / "hook", f"PYTHON={sys.executable}"], log="release-hook")
    progress.call([sys.executable, fresh / "playbooks/scripts/bundle.py"], log="release-bundle")


def _build_test_hook(fresh: pathlib.Path) -> None:
    progress.call(["make", "-C", fresh / "hook", "out/test/libvcuda.so"], log="release-hook")
