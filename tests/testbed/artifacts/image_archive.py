"""Write container images as files that ``ctr images import`` reads; no registry, no daemon.

The format is what ``docker save`` writes: layers as tar files, a configuration that names their
hashes, and ``manifest.json``. The same content gives the same bytes.
"""

import dataclasses
import hashlib
import io
import json
import pathlib
import tarfile

from tests.testbed.host_files import files


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image of one layer."""

    tag: str
    entries: list[files.Entry]
    command: tuple[str, ...]
    environment: tuple[str, ...] = ()


def write(image: Image, archive: pathlib.Path) -> None:
    """Write the image's archive; the file appears under its name when it is whole."""
    layer = files.tar(image.entries)
    configuration = json.dumps(_configuration(image, layer), sort_keys=True).encode()
    configuration_name = f"{hashlib.sha256(configuration).hexdigest()}.json"
    manifest = [{"Config": configuration_name, "RepoTags": [image.tag], "Layers": ["layer.tar"]}]
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as target:
        for name, data in (
            (configuration_name, configuration),
            ("layer.tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            target.addfile(member, io.BytesIO(data))
    partial.rename(archive)


def _configuration(image: Image, layer: bytes) -> dict[str, object]:
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": list(image.environment), "Cmd": list(image.command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
