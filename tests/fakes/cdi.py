"""A runtime's two ways to a container's device nodes: paths from the kubelet, and names of CDI.

By containerd 1.7's oci/utils_unix.go (getDevices, DeviceFromPath) and pkg/cri/opts/spec_linux.go
(WithDevices resolves links), and by CDI's pkg/cdi (cache.go, spec.go, container-edits.go) as
containerd 1.7 has it. Both ways end in an OCI spec; this is what of a node stands there.
"""

import dataclasses
import json
import os
import pathlib
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Any

_VERSIONS = {"0.3.0", "0.4.0", "0.5.0"}
_VENDOR = re.compile(r"[A-Za-z][-A-Za-z0-9._]*[A-Za-z0-9]")
_CLASS = re.compile(r"[A-Za-z][-A-Za-z0-9_]*[A-Za-z0-9]")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._:]*[A-Za-z0-9])?")
_NODES = {stat.S_IFCHR, stat.S_IFBLK}
_FIELDS = {"path", "hostPath", "permissions", "fileMode", "uid", "gid"}


class InjectionError(AssertionError):
    """The runtime refuses to create the container."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OciNode:
    """A device of the container; numbers are those of the host's node."""

    path: str
    numbers: int
    mode: int
    uid: int
    gid: int
    access: str


def plain(paths: Iterable[str], devices: pathlib.Path) -> set[OciNode]:
    """Return the nodes of paths from the kubelet; ``devices`` stands for /dev."""
    found: set[OciNode] = set()
    for path in paths:
        real = pathlib.Path(os.path.realpath(devices / path.removeprefix("/dev/")))
        for name, place in _walk(path, real):
            at = place.lstat()
            mode, uid, gid = stat.S_IMODE(at.st_mode), at.st_uid, at.st_gid
            numbers = at.st_rdev
            node = OciNode(path=name, numbers=numbers, mode=mode, uid=uid, gid=gid, access="rw")
            found.add(node)
    return found


def _walk(path: str, real: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    if not real.is_dir():
        yield path, real
        return
    for each in real.iterdir():
        inside = f"{path}/{each.name}"
        if each.is_dir() and not each.is_symlink():
            if each.name not in {"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"}:
                yield from _walk(inside, each)
        elif each.name != "console" and stat.S_IFMT(each.lstat().st_mode) in _NODES:
            yield inside, each


def injected(
    folders: Iterable[pathlib.Path], names: Iterable[str], devices: pathlib.Path, *, user: int = 0
) -> set[OciNode]:
    """Return the nodes of CDI names for a process of a user.

    Raises:
        InjectionError: a name is in no spec, or a node is not on the host.
    """
    known: dict[str, list[dict[str, Any]]] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            known |= _devices(json.loads(file.read_text()))
    found: dict[str, OciNode] = {}
    for name in names:
        if name not in known:
            raise InjectionError(f"unresolvable CDI devices {name}")
        for node in known[name]:
            found[node["path"]] = _node(node, devices, user)
    return set(found.values())


def _devices(spec: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the nodes of a spec's devices by full name; a spec that breaks a rule has none."""
    assert spec["cdiVersion"] in _VERSIONS
    vendor, _, kind = spec["kind"].partition("/")
    assert _VENDOR.fullmatch(vendor)
    assert _CLASS.fullmatch(kind)
    assert spec["devices"], "a spec without devices is refused"
    found = {}
    for device in spec["devices"]:
        assert _NAME.fullmatch(device["name"])
        nodes = device["containerEdits"]["deviceNodes"]
        assert nodes, "a device without edits is refused"
        assert all(node.keys() <= _FIELDS for node in nodes)
        found[f"{spec['kind']}={device['name']}"] = nodes
    assert len(found) == len(spec["devices"]), "two devices of one name are refused"
    return found


def _node(node: dict[str, Any], devices: pathlib.Path, user: int) -> OciNode:
    host = node.get("hostPath", node["path"])
    place = devices / host.removeprefix("/dev/") if host.startswith("/dev/") else pathlib.Path(host)
    try:
        at = place.lstat()
    except OSError as error:
        raise InjectionError(f"failed to stat CDI host device {host}: {error}") from error
    if stat.S_ISLNK(at.st_mode) or stat.S_ISDIR(at.st_mode):
        raise InjectionError(f"{host}: not a device node")
    return OciNode(
        path=node["path"],
        numbers=at.st_rdev,
        mode=node.get("fileMode", 0o666),  # runc's own, where the spec has none
        uid=node.get("uid", user),
        gid=node.get("gid", user),
        access=node.get("permissions", "rwm"),
    )
