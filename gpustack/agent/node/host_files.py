"""The host's files for a container: driver volume, hook, device nodes. Looked up at each call.

The hook is the one build that the configuration names; running containers keep the one they were
given.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

from gpustack.agent.node import driver_files, driver_volume
from gpustack.agent.node.hook_build import HookBuild, HookError
from gpustack.agent.node.shared_files import SharedFiles
from gpustack.agent.settings import AgentSettings
from gpustack.model.errors import GpustackError

_REQUIRED_NODES = ("nvidiactl", "nvidia-uvm")
_OPTIONAL_NODES = ("nvidia-uvm-tools",)  # for profilers; made on demand by nvidia-modprobe


class HostFilesError(GpustackError):
    """A file that the container needs is not on the host; the text names it and the cure."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostPaths:
    """The paths of these files on the host.

    Attributes:
        driver_volume: folder with bin/ and lib64/ of the running driver.
        hook: folder with libvcuda.so and ld.so.preload; None when it wasn't asked for.
        device_nodes: nodes that every GPU container gets besides its cards.
    """

    driver_volume: pathlib.Path
    hook: pathlib.Path | None
    device_nodes: tuple[str, ...]


class HostFiles:
    """Finds and checks the host's files.

    Args:
        driver_volume: of the running driver.
        hook: the build that shares get.
        shared: keeps them open, so that no tenant gets a lease on them.
        extra_devices: absolute paths of nodes that every GPU container gets too.
        device_dir: where device nodes stand.
    """

    def __init__(
        self,
        *,
        driver_volume: pathlib.Path,
        hook: HookBuild,
        shared: SharedFiles,
        extra_devices: Sequence[str] = (),
        device_dir: pathlib.Path = pathlib.Path("/dev"),
    ) -> None:
        self._driver_volume = driver_volume
        self._hook = hook
        self.shared = shared
        self._extra_devices = tuple(extra_devices)
        self._device_dir = device_dir

    def paths(self, minors: Sequence[int], *, with_hook: bool) -> HostPaths:
        """Return the files for a container with these cards.

        Raises:
            HostFilesError: a device node is missing, or the hook is or was changed.
        """
        needed = (*(f"nvidia{minor}" for minor in minors), *_REQUIRED_NODES)
        missing = [name for name in needed if not (self._device_dir / name).exists()]
        if missing:
            names = ", ".join(f"/dev/{name}" for name in missing)
            raise HostFilesError(f"{names} missing; restart gpustack-device.service")
        optional = [name for name in _OPTIONAL_NODES if (self._device_dir / name).exists()]
        nodes = tuple(f"/dev/{name}" for name in (*_REQUIRED_NODES, *optional))
        return HostPaths(
            driver_volume=self._driver_volume,
            hook=self._hook_folder() if with_hook else None,
            device_nodes=(*nodes, *self._extra_devices),
        )

    def _hook_folder(self) -> pathlib.Path:
        try:
            return self._hook.folder()
        except HookError as error:
            raise HostFilesError(str(error)) from error


def find(
    settings: AgentSettings, version: str, *, device_dir: pathlib.Path, linker_cache: str | None
) -> HostFiles:
    """Find the driver's files on this host, and lay out the volume of this version.

    Args:
        settings: the configuration.
        version: of the driver.
        device_dir: where device nodes stand.
        linker_cache: what `ldconfig -p` prints; None: ask it.

    Raises:
        GpustackError: the driver's files can't be used.
    """
    cache = driver_files.linker_cache() if linker_cache is None else linker_cache
    volume = driver_volume.build(
        root=settings.state_dir / "driver",
        version=version,
        libraries=driver_files.find_libraries(version, cache),
        binaries=driver_files.find_binaries(),
    )
    hooks = settings.state_dir / "hooks"  # with those that running containers were given before
    shared = SharedFiles((volume, hooks))
    shared.keep()
    return HostFiles(
        driver_volume=volume,
        hook=HookBuild(hooks / settings.hook_version),
        shared=shared,
        extra_devices=settings.extra_devices,
        device_dir=device_dir,
    )
