"""A pod's own mounts that would hide ours: pure. The admission policy refuses the same ones.

A pod's own mount comes after ours, and hides what lies at or below its path. A mount of a folder
that ours lie in is another container's as well: in that folder it may remove or move the points
that ours are mounted on. The file of a container's termination message is such a mount, the last of
all (k8s.io/kubernetes 1.37 pkg/kubelet/kuberuntime/kuberuntime_container.go makeMounts).
"""

import enum
import pathlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpustack.wire.container_paths import (
    ACTIVITY_PATH,
    DRIVER_PATH,
    HOOK_PATH,
    LEDGER_PATH,
    LIMITS_PATH,
    PRELOAD_PATH,
)


class Hiding(enum.Enum):
    """Which containers may not have a mount."""

    ALL = enum.auto()
    SHARES = enum.auto()  # those whose limits rest on our mounts


PROTECTED_PATHS: Final = (DRIVER_PATH, PRELOAD_PATH, "/etc/vcuda")
_SHARES: Final = (PRELOAD_PATH, HOOK_PATH, LIMITS_PATH, ACTIVITY_PATH, LEDGER_PATH)
PROTECTED_FOLDERS: Final = frozenset(
    str(folder) for path in _SHARES for folder in pathlib.PurePosixPath(path).parents
).difference(PROTECTED_PATHS)
# The runtime resolves links before it mounts: /proc/self/root leads back to the container's root
# (tried with runc 1.1.5).
_PROCESS: Final = re.compile(r"/proc/(self|thread-self|[0-9]+)(/|$)")


def hiding(path: str) -> Hiding | None:
    """Say which containers may not have a mount of their pod at this path; None where all may."""
    # Two leading slashes are kept by normpath and mean one to the kernel.
    normal = posixpath.normpath("/" + path.lstrip("/"))
    if any(normal == each or normal.startswith(each + "/") for each in PROTECTED_PATHS):
        return Hiding.ALL
    # The kernel goes up from where a link leads to, which only the runtime knows.
    if normal in PROTECTED_FOLDERS or ".." in path.split("/") or _PROCESS.match(normal):
        return Hiding.SHARES
    return None


def hiding_mount(pod: Mapping[str, Any], container: str, *, is_share: bool) -> str | None:
    """Return field and path of a mount that this container may not have; None when there is none.

    Devices count to the field of volumes.
    """
    refused = {Hiding.ALL, Hiding.SHARES} if is_share else {Hiding.ALL}
    spec = pod.get("spec") or {}
    for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if each.get("name") != container:
            continue
        for field, path in _own_mounts(each):
            if isinstance(path, str) and path and hiding(path) in refused:
                return f"{field} {path}"
    return None


def _own_mounts(container: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield field and path of each; a snapshot's have any type."""
    for field, path in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        mounts = container.get(field)
        for each in mounts if isinstance(mounts, list) else ():
            if isinstance(each, dict):
                yield "volumeMounts", each.get(path)
    yield "terminationMessagePath", container.get("terminationMessagePath")
