"""The filter that compares a bundle with its manifest."""

import hashlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def faults(manifest: Mapping[str, Any], folder: str) -> list[str]:
    """Return the paths of a bundle's files that are missing or differ from its manifest.

    Args:
        manifest: of format 4.
        folder: the bundle's.
    """
    return [
        str(path)
        for name, checksum in _files(manifest)
        if _checksum(path := pathlib.Path(folder, name)) != checksum
    ]


def _files(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and SHA-256 of each file that a manifest names."""
    yield from manifest["wheels"]["archives"].items()
    for architecture, build in manifest["hook"].items():
        for name, checksum in build["files"].items():
            yield f"hook/{architecture}/{name}", checksum


def _checksum(path: pathlib.Path) -> str | None:
    """Return a file's SHA-256, None where it can't be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {"preflight_bundle_faults": faults}
