"""The folders of the testbed, all outside the repository.

The cache survives ``down`` (roots, Kubernetes' programs, images); a testbed's state does not.
"""

import os
import pathlib

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def cache(*parts: str) -> pathlib.Path:
    """Return a folder of the project's cache, made when it is missing."""
    home_cache = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    root = os.environ.get("GPUSTACK_CACHE") or str(pathlib.Path(home_cache) / "gpustack")
    folder = pathlib.Path(root, *parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def state_root() -> pathlib.Path:
    """Return the folder that holds one folder for each testbed."""
    return pathlib.Path(os.environ.get("GPUSTACK_TESTBED_STATE") or "/var/lib/gpustack-testbed")
