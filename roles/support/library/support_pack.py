"""Packs what hosts and cluster gave for a report of a fault, within a size."""

from __future__ import annotations

import gzip
import io
import json
import os
import pathlib
import tarfile
import tempfile
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: support_pack
short_description: Pack collected texts into one archive that says what it lacks
description:
  - Reads C(NAME.json) of a folder, each with C(files), name to text, and C(left_out), each with
    C(what) and C(why). The archive has a folder for each, and C(README.txt), which names what was
    left out. Where all is more than C(limit_bytes), the longest files are left out.
options:
  folder: {type: path, required: true, description: Of the collected texts.}
  path: {type: path, required: true, description: Of the archive, which is made anew.}
  names: {type: list, elements: str, required: true, description: Who was asked.}
  limit_bytes: {type: int, required: true, description: The most bytes of all files together.}
"""

_SILENT = (
    "nothing of it is here: it didn't answer, or the collection failed (the run's output says)"
)
_RULE = """\
What gpustack's playbook support.yml found, for a report of a fault. It has states, settings and
logs of gpustack's own units. Texts keep the words of gpustack's own sources and the names of pods
with cards; "…" stands for any other word.

Never in it: keys, tokens and kubeconfigs; environments, commands and annotations of pods that
aren't gpustack's; processes and their arguments; logs of kubelet, container runtime and scheduler,
which quote all of these; messages of Events.

Left out here:
"""


def packed(found: dict[str, dict[str, Any]], names: list[str], limit: int) -> dict[str, str]:
    """Return the archive's files, name to text, of at most `limit` bytes beside README.txt."""
    texts = {
        f"{name}/{file}": text for name, one in found.items() for file, text in one["files"].items()
    }
    notes = [f"{name}: {_SILENT}" for name in names if name not in found]
    for name, one in sorted(found.items()):
        notes += [f"{name}/{each['what']}: {each['why']}" for each in one["left_out"]]
    kept, left = {}, limit
    # the shortest first: a long log gives way to the states of all hosts
    for name, text in sorted(texts.items(), key=lambda item: (len(item[1].encode()), item[0])):
        size = len(text.encode())
        if size <= left:
            kept[name], left = text, left - size
        else:
            notes.append(f"{name}: its {size} bytes don't fit into {limit} of all files")
    lines = [" ".join(note.split()) for note in notes] or ["nothing"]
    return {"README.txt": _RULE + "".join(f"- {line}\n" for line in lines), **kept}


def write(path: str, files: dict[str, str]) -> None:
    """Write the archive, readable by its owner alone."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in sorted(files.items()):
            member = tarfile.TarInfo(f"gpustack-support/{name}")
            member.size, member.mode, member.mtime = len(text.encode()), 0o600, int(time.time())
            tar.addfile(member, io.BytesIO(text.encode()))
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(gzip.compress(plain.getvalue()))
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def main() -> None:
    """Run as Ansible's module."""
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "path": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "limit_bytes": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        found = {
            path.stem: json.loads(path.read_text("utf-8"))
            for path in sorted(pathlib.Path(params["folder"]).glob("*.json"))
        }
        files = packed(found, params["names"], params["limit_bytes"])
        write(params["path"], files)
    except OSError as error:
        module.fail_json(msg=f"{params['path']}: {error.strerror}")
    readme = files["README.txt"].partition("Left out here:\n")[2]
    module.exit_json(changed=True, left_out=readme.splitlines())


if __name__ == "__main__":
    main()
