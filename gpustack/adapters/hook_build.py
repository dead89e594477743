"""The build of the hook that shares get: a folder named after its own content.

`VERSION-SUM`, where SUM is the first eight hexadecimal digits of the SHA-256 over what
`sha256sum *` prints in it (names in the C locale's order). Containers have the folder mounted, so
its files never change; a folder whose bytes don't give its name was copied by half or written to,
and no container gets it. The file `layouts` names the layouts of the mapped files that the build
reads, `1 2` for instance; a build without it reads 1.
"""

import hashlib
import logging
import pathlib
import stat
from typing import Final

from gpustack.model.errors import GpustackError
from gpustack.wire.container_paths import HOOK_PATH
from gpustack.wire.files import regular_file
from gpustack.wire.mapped.two_slot_page import LAYOUT_VERSION, OLDEST_LAYOUT

logger = logging.getLogger(__name__)

_SUM_DIGITS = 8
_FILES = ("libvcuda.so", "ld.so.preload")
_PRELOAD: Final = f"{HOOK_PATH}/libvcuda.so\n".encode()
_LAYOUTS = "layouts"
_FIRST_LAYOUT = 1

# (name, mode, inode, bytes, modification time in ns) of the folder and of each file
_State = tuple[tuple[str, int, int, int, int], ...]


class HookError(GpustackError):
    """The build can't be used; the text says why and what to do."""


def content_sum(folder: pathlib.Path) -> str:
    """Return the sum that a folder's name ends with.

    Raises:
        OSError: a file can't be read.
    """
    lines = (f"{_sum_of(path)}  {path.name}\n" for path in sorted(folder.iterdir()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:_SUM_DIGITS]


def _sum_of(path: pathlib.Path) -> str:
    return hashlib.sha256(_read(path)).hexdigest()


def _read(path: pathlib.Path) -> bytes:
    with regular_file.open_at_once(path) as file:
        return file.read()


class HookBuild:
    """One build on the host, checked again whenever its files' times or sizes have changed.

    Args:
        folder: where it lies; its name is the build's.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._sound: _State | None = None

    def folder(self) -> pathlib.Path:
        """Return the folder, whose bytes are those of its name.

        Raises:
            HookError: it isn't there, or its bytes are others.
        """
        try:
            state = _state(self._folder)
            if state == self._sound:
                return self._folder
            self._check_modes(state)
            found = content_sum(self._folder)
            preload = _read(self._folder / "ld.so.preload")
        except BlockingIOError as error:
            raise HookError(
                f"root in a container holds a lease on a file of {self._folder}, which the kernel"
                " ends within fs.lease-break-time (45 s); sysctl fs.leases-enable=0 prevents it"
            ) from error
        except OSError as error:
            raise HookError(f"no hook in {self._folder}: {error}; run site.yml") from error
        missing = [name for name in _FILES if not (self._folder / name).is_file()]
        if missing:
            raise HookError(f"no hook in {self._folder}: {', '.join(missing)} missing")
        if found != self._folder.name.rpartition("-")[2]:
            raise HookError(
                f"the files in {self._folder} are not the build's own (their sum is {found}):"
                " stop the containers that use it, remove it and run site.yml"
            )
        if preload != _PRELOAD:
            raise HookError(
                f"{self._folder} is a build for other paths in containers than those of this agent"
                f" ({HOOK_PATH}): set gpustack_agent_hook_version to a build of this agent's bundle"
                " and run site.yml; containers that run with it go on"
            )
        self._sound = state
        return self._folder

    def layout(self) -> int:
        """Return the newest layout of the mapped files that the build reads and the agent writes.

        Raises:
            HookError: there is none, or the build names none.
        """
        path = self._folder / _LAYOUTS
        try:
            with regular_file.open_at_once(path) as file:
                named = {int(word) for word in file.read().split()}
        except FileNotFoundError:
            named = {_FIRST_LAYOUT}
        except (OSError, ValueError) as error:
            raise HookError(f"{path}: {error}; run site.yml") from error
        both = named.intersection(range(OLDEST_LAYOUT, LAYOUT_VERSION + 1))
        if not both:
            raise HookError(
                f"the hook in {self._folder} reads layouts {sorted(named)} of the mapped files,"
                f" this agent writes {OLDEST_LAYOUT} to {LAYOUT_VERSION}: deploy one release"
            )
        return max(both)

    def _check_modes(self, state: _State) -> None:
        """Require files that any user's process can read: ld.so passes over the others."""
        for name, mode, *_ in state:
            path, needed = self._folder / name, stat.S_IROTH
            if name == ".":
                needed |= stat.S_IXOTH
            elif not stat.S_ISREG(mode):
                raise HookError(f"{path} is no regular file; remove it")
            if mode & needed != needed:
                raise HookError(
                    f"others than root may not read {path}, and tenants would run without the"
                    f" hook: chmod -R a+rX {self._folder}"
                )


def _state(folder: pathlib.Path) -> _State:
    paths = (folder, *sorted(folder.iterdir()))
    found = (
        (str(path.relative_to(folder)), path.stat(follow_symlinks=path == folder)) for path in paths
    )
    return tuple(
        (name, each.st_mode, each.st_ino, each.st_size, each.st_mtime_ns) for name, each in found
    )
