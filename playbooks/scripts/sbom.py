"""Lists what a bundle brings to hosts, as a CycloneDX 1.4 document.

Every component is a file of the bundle with its SHA-256; names and versions are the file's own, as
the binary distribution format has them (https://packaging.python.org/specifications/).
"""

import hashlib
import json
import pathlib
import re
import tarfile
from collections.abc import Callable, Mapping
from typing import Any

import bundle

OURS = "gpustack-vcuda"


def bill(folder: pathlib.Path, licence_of: Callable[[str], str]) -> dict[str, Any]:
    """Return the document of a bundle.

    Args:
        folder: the bundle, as `bundle.build` writes it.
        licence_of: gives the licence of a package of the lock file, by its normalised name.

    Raises:
        BundleError: the archive has a file that is no wheel.
    """
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    version = manifest["version"]
    components = [
        *(
            wheel
            for archive in sorted(manifest["wheels"]["archives"])
            for wheel in _wheels(folder / archive, licence_of)
        ),
        *_hooks(manifest),
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.4",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "gpustack",
                "version": version,
                "licenses": [{"license": {"name": "Apache-2.0"}}],
            }
        },
        "components": components,
    }


def _wheels(archive: pathlib.Path, licence_of: Callable[[str], str]) -> list[dict[str, Any]]:
    found = []
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            stream = tar.extractfile(member)
            if member.name == "requirements.txt" or stream is None:
                continue
            match = re.fullmatch(r"([^-]+)-([^-]+)-\S+\.whl", member.name)
            if match is None:
                raise bundle.BundleError(f"{archive}: {member.name} is no wheel")
            name = re.sub(r"[-_.]+", "-", match[1]).lower()  # PEP 503
            one = _component("library", name, match[2], hashlib.sha256(stream.read()).hexdigest())
            one["bom-ref"] = member.name
            one["licenses"] = [
                {"license": {"name": "Apache-2.0" if name == OURS else licence_of(name)}}
            ]
            if name != OURS:  # which no index has
                one["purl"] = f"pkg:pypi/{name}@{match[2]}?file_name={member.name}"
            found.append(one)
    return found


def _hooks(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    for architecture, hook in sorted(manifest["hook"].items()):
        for name, sum_ in sorted(hook["files"].items()):
            one = _component("file", name, hook["build"], sum_)
            found.append({**one, "bom-ref": f"hook/{architecture}/{name}"})
    return found


def _component(kind: str, name: str, version: str, sha256: str) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": sha256}],
    }
