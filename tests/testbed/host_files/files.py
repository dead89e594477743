"""Files for a host, as values, and the tar stream that podman copies into it."""

import dataclasses
import io
import pathlib
import string
import tarfile

TEMPLATES = pathlib.Path(__file__).parents[1] / "templates"


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """A file, or with ``target`` a symbolic link. Owned by root; the path is absolute."""

    path: str
    data: bytes = b""
    mode: int = 0o644
    target: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Folder:
    """An empty folder that has to be there, with its mode."""

    path: str
    mode: int = 0o755


Entry = File | Folder


def template(name: str, path: str, /, **values: str) -> File:
    """Fill in one of the texts in ``templates/``; every ``${word}`` in it must be given."""
    text = string.Template((TEMPLATES / name).read_text())
    return File(path, text.substitute(values).encode())


def link(path: str, target: str) -> File:
    """Make a symbolic link."""
    return File(path, target=target)


def enable(unit: str) -> File:
    """Make the link that ``systemctl enable`` makes, so that the unit starts with the host."""
    return link(
        f"/etc/systemd/system/multi-user.target.wants/{unit}", f"/etc/systemd/system/{unit}"
    )


def tar(entries: list[Entry]) -> bytes:
    """Pack files into a tar stream.

    It holds no folder but those asked for: unpacking one would reset the mode of the host's own,
    and a missing one above a file is made on the way.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            archive.addfile(*_member(entry))
    return buffer.getvalue()


def _member(entry: Entry) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    info = tarfile.TarInfo(entry.path.lstrip("/"))
    info.mode = entry.mode
    if isinstance(entry, Folder):
        info.type = tarfile.DIRTYPE
        return info, None
    if entry.target:
        info.type = tarfile.SYMTYPE
        info.linkname = entry.target
        return info, None
    info.size = len(entry.data)
    return info, io.BytesIO(entry.data)
