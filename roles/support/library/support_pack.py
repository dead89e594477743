"""Packs what hosts and cluster gave for a report of a fault, within a size."""

from __future__ import annotations

import gzip
import io
import json
import os
import pathlib
import re
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
    left out. Where all is more than C(limit_bytes), each of those asked has an equal part of it at
    least, and its longest files are left out.
  - Root of a host writes its answer. One of another form is left out as a whole, and named.
options:
  folder: {type: path, required: true, description: Of the collected texts.}
  path: {type: path, required: true, description: Of the archive, which is made anew.}
  names: {type: list, elements: str, required: true, description: Who was asked.}
  limit_bytes: {type: int, required: true, description: The most bytes of all files together.}
"""

_SILENT = (
    "nothing of it is here: it didn't answer, or the collection failed (the run's output says)"
)
_ODD = "nothing of it is here: its answer has another form than gpustack's, and was not believed"
# A name of a file is one member below its host's folder, wherever the archive is unpacked.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# A host of both parts has 23 files, and as many things can be left out.
_MOST = 100
# Of a line of README.txt, in characters; the longest of support_host.py has a path and a reason.
_LINE = 400
_RULE = """\
What gpustack's playbook support.yml found, for a report of a fault. It has states, settings and
logs of gpustack's own units. Texts keep the words of gpustack's own sources and the names of pods
with cards; "…" stands for any other word.

Never in it: keys, tokens and kubeconfigs; environments, commands and annotations of pods that
aren't gpustack's; processes and their arguments; logs of kubelet, container runtime and scheduler,
which quote all of these; messages of Events.

Left out here:
"""


def is_answer(one: Any) -> bool:
    """Say whether an answer has the form of support_host's: few files of good names, and texts."""
    if not isinstance(one, dict):
        return False
    files, left_out = one.get("files"), one.get("left_out")
    if not isinstance(files, dict) or not isinstance(left_out, list):
        return False
    return (
        max(len(files), len(left_out)) <= _MOST
        and all(_NAME.fullmatch(name) and _is_text(text) for name, text in files.items())
        and all(isinstance(each, dict) for each in left_out)
        and all(_is_text(each.get(key)) for each in left_out for key in ("what", "why"))
    )


def _is_text(value: Any) -> bool:
    """Say whether a value is a text that UTF-8 can write: JSON has half surrogates."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def packed(answers: dict[str, Any], names: list[str], limit: int) -> dict[str, str]:
    """Return the archive's files, name to text, of at most `limit` bytes beside README.txt.

    Args:
        answers: of those who gave one, by name; what is none of support_host's is None.
        names: who was asked.
        limit: bytes of all files together.
    """
    found = {name: one for name, one in answers.items() if is_answer(one)}
    notes = [f"{name}: {_SILENT}" for name in names if name not in answers]
    notes += [f"{name}: {_ODD}" for name in sorted(answers.keys() - found.keys())]
    for name, one in sorted(found.items()):
        notes += [f"{name}/{each['what']}: {each['why']}" for each in one["left_out"]]
    kept: dict[str, str] = {}
    texts = [(name, one["files"]) for name, one in found.items()]
    # who needs least comes first: what it leaves is the others'
    for after, (name, files) in enumerate(sorted(texts, key=_need)):
        part = (limit - sum(map(_bytes, kept.values()))) // (len(found) - after)
        # the shortest first: a long log gives way to the states of its host
        for file, text in sorted(files.items(), key=lambda item: (_bytes(item[1]), item[0])):
            if _bytes(text) <= part:
                kept[f"{name}/{file}"], part = text, part - _bytes(text)
            else:
                notes.append(
                    f"{name}/{file}: its {_bytes(text)} bytes don't fit into {limit} of all files"
                )
    lines = [_line(note) for note in notes] or ["nothing"]
    return {"README.txt": _RULE + "".join(f"- {line}\n" for line in lines), **kept}


def _need(item: tuple[str, dict[str, str]]) -> tuple[int, str]:
    return sum(map(_bytes, item[1].values())), item[0]


def _bytes(text: str) -> int:
    return len(text.encode())


def _line(note: str) -> str:
    """Return a note as one line, without characters that a terminal obeys."""
    shown = "".join(each if each.isprintable() else "?" for each in " ".join(note.split()))
    return shown if len(shown) <= _LINE else f"{shown[:_LINE]}…"


def read(folder: pathlib.Path) -> dict[str, Any]:
    """Return the answers of a folder by name; one that is no JSON is None."""
    answers: dict[str, Any] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            answers[path.stem] = json.loads(path.read_text("utf-8"))
        except (ValueError, RecursionError):
            answers[path.stem] = None
    return answers


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
        answers = read(pathlib.Path(params["folder"]))
        files = packed(answers, params["names"], params["limit_bytes"])
        write(params["path"], files)
    except OSError as error:
        module.fail_json(msg=f"{params['path']}: {error.strerror}")
    readme = files["README.txt"].partition("Left out here:\n")[2]
    module.exit_json(changed=True, left_out=readme.splitlines())


if __name__ == "__main__":
    main()
