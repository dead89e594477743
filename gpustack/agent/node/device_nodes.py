"""The device nodes that containers get: the driver's, and those that the operator adds."""

import dataclasses
import os
import pathlib
import stat
from collections.abc import Iterator, Sequence
from typing import Final

_REQUIRED: Final = ("nvidiactl", "nvidia-uvm")
_OPTIONAL: Final = ("nvidia-uvm-tools",)  # for profilers; made on demand by nvidia-modprobe
# Of whole cards only: a share computes, and gets no more of the driver than that takes.
_WHOLE_CARDS: Final = ("nvidia-modeset",)  # for graphics
_CAPABILITIES: Final = "nvidia-caps"  # a folder of nodes, each a right of the driver's
# What containerd passes over in a folder (getDevices in its oci/utils_unix.go).
_OTHER_FOLDERS: Final = {"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostNode:
    """A device node on the host.

    Attributes:
        path: as a container names it.
        target: where it is on the host; None where that is `path`.
        mode: its permission bits; None where it isn't there, as uid and gid are.
    """

    path: str
    target: str | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


class DeviceNodes:
    """Looks the nodes up at each call: a driver's unit may make them later.

    Args:
        folder: where device nodes stand.
        extra: absolute paths, below /dev, of nodes that every GPU container gets too.
    """

    def __init__(self, folder: pathlib.Path, extra: Sequence[str] = ()) -> None:
        self._folder = folder
        self._extra = tuple(extra)

    def missing(self, minors: Sequence[int]) -> list[str]:
        """Return the paths of nodes that a container with these cards needs, and that lack."""
        needed = (*map(card_path, minors), *(f"/dev/{name}" for name in _REQUIRED))
        return [path for path in needed if not self._place(path).exists()]

    def besides(self, *, is_share: bool) -> tuple[str, ...]:
        """Return the paths of the nodes that a container gets besides its cards."""
        names = _OPTIONAL if is_share else (*_OPTIONAL, *_WHOLE_CARDS)
        found = [f"/dev/{name}" for name in names if (self._folder / name).exists()]
        found += [] if is_share else self._capabilities()
        return (*(f"/dev/{name}" for name in _REQUIRED), *found, *self._extra)

    def at(self, path: str) -> tuple[HostNode, ...]:
        """Return the nodes that a runtime gives for a path of the kubelet's: one, or a folder's.

        A link leads to the node. A node that isn't there is named all the same.
        """
        place = self._place(path)
        real = pathlib.Path(os.path.realpath(place))
        is_link = real != pathlib.Path(os.path.realpath(place.parent), place.name)
        try:
            if real.is_dir():
                return tuple(_nodes_in(path, real, is_link=is_link))
            return (_node(path, real.stat(), real if is_link else None),)
        except OSError:
            return (HostNode(path=path),)

    def _place(self, path: str) -> pathlib.Path:
        return self._folder / pathlib.PurePath(path).relative_to("/dev")

    def _capabilities(self) -> list[str]:
        """Return the driver's capability nodes that any user may open.

        The others are for root (nvidia-cap1 configures MIG, and the driver makes it 0400): a
        container's root must not get them with a card.
        """
        try:
            folder = sorted((self._folder / _CAPABILITIES).iterdir())
            return [
                f"/dev/{_CAPABILITIES}/{each.name}"
                for each in folder
                if each.stat(follow_symlinks=False).st_mode & stat.S_IROTH
            ]
        except OSError:
            return []  # most drivers have none


def card_path(minor: int) -> str:
    """Return the path of a card's node."""
    return f"/dev/nvidia{minor}"


def _node(path: str, found: os.stat_result, target: pathlib.Path | None) -> HostNode:
    return HostNode(
        path=path,
        target=None if target is None else str(target),
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
    )


def _nodes_in(path: str, folder: pathlib.Path, *, is_link: bool) -> Iterator[HostNode]:
    """Return the nodes below a folder; links in it are passed over, as the runtime does."""
    for each in sorted(folder.iterdir()):
        found = each.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            if each.name not in _OTHER_FOLDERS:
                yield from _nodes_in(f"{path}/{each.name}", each, is_link=is_link)
        elif each.name != "console" and stat.S_IFMT(found.st_mode) in {stat.S_IFCHR, stat.S_IFBLK}:
            yield _node(f"{path}/{each.name}", found, each if is_link else None)
