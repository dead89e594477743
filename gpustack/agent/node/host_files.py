"""The host's files for a container: driver volume, hook, device nodes. Looked up at each call.

The hook is the one build that the configuration names; running containers keep the one they were
given.
"""

import dataclasses
import functools
import logging
import pathlib
from collections.abc import Callable

from gpustack.adapters.hook_build import HookBuild, HookError
from gpustack.agent.cdi.devices import CdiDevices
from gpustack.agent.cdi.support import CdiError
from gpustack.agent.kernel_files import HOST, KernelFiles
from gpustack.agent.kubelet.checkpoint import (
    KubeletCheckpoint,
    KubeletCheckpointError,
    KubeletCheckpointMissing,
)
from gpustack.agent.node import driver_files, driver_volumes
from gpustack.agent.node.device_nodes import DeviceNodes
from gpustack.agent.node.driver_files import DriverFilesError
from gpustack.agent.node.driver_volumes import DriverFiles, DriverVolumes
from gpustack.agent.node.shared_files import SharedFiles
from gpustack.agent.settings import AgentSettings
from gpustack.agent.tasks import Tasks
from gpustack.model.errors import GpustackError
from gpustack.model.placement import ContainerPlacement
from gpustack.wire.files.original_config import VolumeNames
from gpustack.wire.mapped.two_slot_page import LAYOUT_VERSION

logger = logging.getLogger(__name__)


class HostFilesError(GpustackError):
    """A file that the container needs is not on the host; the text names it and the cure."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostPaths:
    """The paths of these files on the host.

    Attributes:
        driver_volume: folder with bin/ and lib64/ of the running driver.
        hook: folder with libvcuda.so and ld.so.preload; None when it wasn't asked for.
        device_nodes: nodes that the container gets besides its cards.
        cdi_devices: names that stand for all of its nodes; empty where CDI is off.
        gives_library_path: whether it gets LD_LIBRARY_PATH, where its pod doesn't say.
        layout: of the mapped files: the newest that the hook reads and this agent writes.
    """

    driver_volume: pathlib.Path
    hook: pathlib.Path | None
    device_nodes: tuple[str, ...]
    cdi_devices: tuple[str, ...] = ()
    gives_library_path: bool = True
    layout: int = LAYOUT_VERSION


class HostFiles:
    """Finds and checks the host's files.

    Args:
        volumes: of the drivers.
        hook: the build that shares get.
        shared: keeps them open, so that no tenant gets a lease on them.
        device_nodes: of the driver, and the operator's.
        cdi: their names, where CDI is on.
        gives_library_path: the node's setting.
    """

    def __init__(
        self,
        *,
        volumes: DriverVolumes,
        hook: HookBuild,
        shared: SharedFiles,
        device_nodes: DeviceNodes,
        cdi: CdiDevices,
        gives_library_path: bool = True,
    ) -> None:
        self.volumes = volumes
        self._hook = hook
        self.shared = shared
        self._device_nodes = device_nodes
        self._cdi = cdi
        self._gives_library_path = gives_library_path

    def start(self, tasks: Tasks) -> None:
        """Keep the shared files open, volumes and CDI spec up to date, as the agent's tasks."""
        self._cdi.start(tasks)
        tasks.start("shared files", self.shared.run)
        tasks.start("driver volumes", self.volumes.run)

    def paths(self, placement: ContainerPlacement) -> HostPaths:
        """Return the files for a container.

        Raises:
            HostFilesError: a device node or the driver's files are missing, the hook is or was
                changed, or the devices can't be given by CDI.
        """
        is_share = placement.is_share
        missing = self._device_nodes.missing(placement.minors)
        if missing:
            raise HostFilesError(f"{', '.join(missing)} missing; restart gpustack-device.service")
        paths = HostPaths(
            driver_volume=self._driver_volume(),
            hook=None,
            cdi_devices=self._cdi_devices(placement),
            device_nodes=self._device_nodes.besides(is_share=is_share),
            gives_library_path=self._gives_library_path,
        )
        return self._with_hook(paths) if is_share else paths

    @property
    def hook_problem(self) -> str:
        """Why shares can't get the hook; empty while they can."""
        try:
            self._hook.folder()
            self._hook.layout()
        except HookError as error:
            return str(error)
        return ""

    def _driver_volume(self) -> pathlib.Path:
        try:
            return self.volumes.current()
        except DriverFilesError as error:
            raise HostFilesError(str(error)) from error

    def _cdi_devices(self, placement: ContainerPlacement) -> tuple[str, ...]:
        try:
            return self._cdi.names(placement)
        except CdiError as error:
            raise HostFilesError(str(error)) from error

    def _with_hook(self, paths: HostPaths) -> HostPaths:
        try:
            hook = self._hook.folder()
            return dataclasses.replace(paths, hook=hook, layout=self._hook.layout())
        except HookError as error:
            raise HostFilesError(str(error)) from error


def find(
    settings: AgentSettings,
    nvml_version: Callable[[], str],
    kubelet: KubeletCheckpoint,
    *,
    cdi: CdiDevices,
    device_dir: pathlib.Path,
    linker_cache: str | None,
    kernel: KernelFiles = HOST,
) -> HostFiles:
    """Find the driver's files on this host, and lay out the volume of the driver that runs.

    Args:
        settings: the configuration.
        nvml_version: returns what NVML says is the driver's version.
        kubelet: names the volumes that containers were given.
        cdi: the names of devices.
        device_dir: where device nodes stand.
        linker_cache: what `ldconfig -p` prints; None: ask it.
        kernel: where the driver's module and processes are shown.

    Raises:
        GpustackError: the driver's files can't be used.
    """
    root = settings.state_dir / "driver"
    hooks = settings.state_dir / "hooks"  # with those that running containers were given before
    volumes = DriverVolumes(
        root,
        version=functools.partial(
            driver_volumes.running_version, nvml_version, kernel.driver_version
        ),
        locate=functools.partial(_locate, settings.driver_volume_config, linker_cache),
        used=functools.partial(_used, root, kubelet, kernel.proc),
    )
    volumes.current()
    shared = SharedFiles((root, hooks))
    shared.keep()
    return HostFiles(
        volumes=volumes,
        hook=HookBuild(hooks / settings.hook_version),
        shared=shared,
        device_nodes=DeviceNodes(device_dir, settings.extra_devices),
        cdi=cdi,
        gives_library_path=settings.driver_library_path == "env",
    )


def _locate(names: VolumeNames | None, linker_cache: str | None, version: str) -> DriverFiles:
    cache = driver_files.linker_cache() if linker_cache is None else linker_cache
    libraries = driver_files.LIBRARIES if names is None else names.libraries
    return DriverFiles(
        libraries=driver_files.find_libraries(version, cache, libraries),
        binaries=driver_files.find_binaries(
            driver_files.BINARIES if names is None else names.binaries
        ),
    )


def _used(
    root: pathlib.Path, kubelet: KubeletCheckpoint, proc: pathlib.Path, names: frozenset[str]
) -> frozenset[str] | None:
    """Return the volumes that are mounted, or will be where a container starts again.

    None where the kubelet's checkpoint can't be read.
    """
    try:
        given = kubelet.given()
    except KubeletCheckpointMissing:
        given = ()
    except KubeletCheckpointError as error:
        logger.warning("unused driver volumes stay for now: %s", error)
        return None
    sources = [pathlib.Path(source) for each in given for source in each.mounts.values()]
    kept = {each.name for each in sources if each.parent == root}
    found = driver_volumes.mounted(names, root, proc)
    return None if found is None else found | kept
