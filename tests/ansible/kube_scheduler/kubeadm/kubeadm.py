"""What kubeadm makes of its scheduler's manifest and a patch.

`recorded` holds what kubeadm v1.37.2 wrote (`kubeadm init phase control-plane scheduler --dry-run`,
once without and once with the patch in `patches.directory`), as JSON.
"""

import json
import pathlib
from typing import Any

import yaml

RECORDED = pathlib.Path(__file__).with_name("recorded")
# What tells elements of a list apart (patchMergeKey of Kubernetes' types); others are replaced.
KEYS = {"containers": "name", "volumes": "name", "volumeMounts": "mountPath"}


def recorded(name: str) -> Any:
    """Return the `manifest` without a patch, the `patch`, or what kubeadm `patched`."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def patched(manifest: str, patch: str) -> str:
    """Return the manifest with a strategic merge patch, as kubeadm writes it."""
    return yaml.safe_dump(merged(yaml.safe_load(manifest), yaml.safe_load(patch)))


def merged(found: Any, patch: Any, name: str = "") -> Any:
    """Return a value with its patch; what is new in a list comes first."""
    if isinstance(found, dict) and isinstance(patch, dict):
        both = {key: merged(found[key], patch[key], key) for key in found.keys() & patch.keys()}
        return {**found, **patch, **both}
    if isinstance(found, list) and name in KEYS:
        given = {one[KEYS[name]]: one for one in patch}
        there = [merged(one, given.pop(one[KEYS[name]], {})) for one in found]
        return [*given.values(), *there]
    return patch
