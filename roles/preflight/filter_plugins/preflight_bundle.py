"""The filter that lists the files of a bundle."""

from collections.abc import Callable, Mapping
from typing import Any


def files(manifest: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return path and SHA-256 of each file that a manifest of format 2 names."""
    wheels = {manifest["wheels"]["archive"]: manifest["wheels"]["sha256"]}
    hooks = {
        f"hook/{architecture}/{name}": checksum
        for architecture, build in manifest["hook"].items()
        for name, checksum in build["files"].items()
    }
    return [{"path": path, "sha256": sum_} for path, sum_ in {**wheels, **hooks}.items()]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {"preflight_bundle_files": files}
