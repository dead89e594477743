"""What of the host a container is given: driver volume, hook, device nodes. Looked up at each call.

So a hook that was installed a moment ago is used by the next container, without a restart; running
containers keep the one they were given.
"""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from gpustack.agent.node import driver_files, driver_volume
from gpustack.agent.settings import Settings
from gpustack.model.errors import GpustackError

AUTO = "auto"

_REQUIRED_NODES = ("nvidiactl", "nvidia-uvm")
_OPTIONAL_NODES = ("nvidia-uvm-tools",)  # for profilers; made on demand by nvidia-modprobe
_HOOK_FILES = ("libvcuda.so", "ld.so.preload")


class HostFilesError(GpustackError):
    """Something that the container needs is not on the host; the text says what and what to do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostPaths:
    """Where things lie on the host.

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
        hooks: folder with one folder for each installed hook version.
        hook_version: which one to use; `auto` for the highest.
        extra_devices: absolute paths of nodes that every GPU container gets too.
        device_dir: where device nodes stand.
    """

    def __init__(
        self,
        *,
        driver_volume: pathlib.Path,
        hooks: pathlib.Path,
        hook_version: str = AUTO,
        extra_devices: Sequence[str] = (),
        device_dir: pathlib.Path = pathlib.Path("/dev"),
    ) -> None:
        self._driver_volume = driver_volume
        self._hooks = hooks
        self._hook_version = hook_version
        self._extra_devices = tuple(extra_devices)
        self._device_dir = device_dir

    def paths(self, minors: Sequence[int], *, with_hook: bool) -> HostPaths:
        """Return what a container with these cards gets.

        Raises:
            HostFilesError: a device node or the hook is missing.
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
            hook=self._hook() if with_hook else None,
            device_nodes=(*nodes, *self._extra_devices),
        )

    def hook_version(self) -> str:
        """Return the version that the next share gets, empty where none is installed."""
        try:
            return self._hook().name
        except HostFilesError:
            return ""

    def _hook(self) -> pathlib.Path:
        installed = [folder for folder in self._hooks.glob("*") if _is_hook(folder)]
        if self._hook_version != AUTO:
            installed = [folder for folder in installed if folder.name == self._hook_version]
        if not installed:
            wanted = "" if self._hook_version == AUTO else f" {self._hook_version}"
            raise HostFilesError(f"no hook{wanted} below {self._hooks}; run the hook role")
        return max(installed, key=lambda folder: _version_key(folder.name))


def _is_hook(folder: pathlib.Path) -> bool:
    return all((folder / name).is_file() for name in _HOOK_FILES)


def _version_key(name: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(number) for number in re.findall(r"\d+", name)), name


def find(
    settings: Settings, version: str, *, device_dir: pathlib.Path, linker_cache: str | None
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
    return HostFiles(
        driver_volume=volume,
        hooks=settings.state_dir / "hooks",
        hook_version=settings.hook_version,
        extra_devices=settings.extra_devices,
        device_dir=device_dir,
    )
