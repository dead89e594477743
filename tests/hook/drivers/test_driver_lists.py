"""A driver's exports that symbols.def lacks: new allocations and launches get named.

Drivers outside of Debian are known by the cuda.h of their toolkits.
"""

import re
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.hook.container import SIMGPU
from tests.hook.drivers import driver_files
from tests.hook.drivers.test_real_driver import exported
from tests.hook.drivers.wheels import installed

pytestmark = pytest.mark.long

# Words in the names of functions that take memory of a card or tell its amount, run something on
# it, or begin and end a span that isn't measured. A new function has one of them, too.
TAKES = re.compile(
    r"cu(?=[A-Z])\w*(Alloc|Create|Import|Instantiate|Launch|Load|MapArray|Open|Reserve|Retain|Upload)"
    r"|cu(Mem|Device)(GetInfo|TotalMem)|cuStream(Begin|End)\w*apture"
)
# Known, and not gated, with the reason.
_MODULE = "takes memory that no argument tells: unaccounted, by what the driver sees"
_IMPORT = "the memory's maker was charged for it; once the maker has gone it is unaccounted"
_ADDRESS = "an address for memory that others hold"
_FOREIGN = "of another API, charged when the thread that it is current to first asks for something"
_MAPPED = "what cuMemCreate was charged for; what it alone keeps is unaccounted"
_READS = "tells or sets something, and takes nothing"
_DRIVER = "an object of the driver's own, or of memory that is there already"
_HOST = "memory of the host"
_CALLBACK = "a function on the host: CUDA forbids launches in it, and they are charged as any other"
LEFT = {
    "cuEventCreate": _DRIVER,
    "cuFuncIsLoaded": _READS,
    "cuFuncLoad": _MODULE,
    "cuGraphAddMemAllocNode": "an address: the memory is charged when its graph is launched",
    "cuGraphConditionalHandleCreate": _DRIVER,
    "cuGraphCreate": _DRIVER,
    "cuGraphMemAllocNodeGetParams": _READS,
    "cuGraphRetainUserObject": _DRIVER,
    "cuGreenCtxStreamCreate": _DRIVER,
    "cuImportExternalSemaphore": _DRIVER,
    "cuIpcOpenEventHandle": _DRIVER,
    "cuLaunchHostFunc": _CALLBACK,
    "cuLaunchHostFunc_ptsz": _CALLBACK,
    "cuLaunchHostFunc_v2": _CALLBACK,
    "cuLaunchHostFunc_v2_ptsz": _CALLBACK,
    "cuLinkCreate": _HOST,
    "cuLinkCreate_v2": _HOST,
    "cuLogicalEndpointIdReserve": _ADDRESS,
    "cuMemAddressReserve": _ADDRESS,
    "cuMemAllocHost": _HOST,
    "cuMemAllocHost_v2": _HOST,
    "cuMemGetAllocationGranularity": _READS,
    "cuMemGetAllocationPropertiesFromHandle": _READS,
    "cuMemHostAlloc": _HOST,
    "cuMemMapArrayAsync": _MAPPED,
    "cuMemMapArrayAsync_ptsz": _MAPPED,
    "cuModuleGetLoadingMode": _READS,
    "cuStreamCreate": _DRIVER,
    "cuStreamCreateWithPriority": _DRIVER,
    "cuSurfObjectCreate": _DRIVER,
    "cuTensorMapSetAllocationClass": _READS,
    "cuTexObjectCreate": _DRIVER,
    "cuTexRefCreate": _DRIVER,
    "cuUserObjectCreate": _DRIVER,
    "cuUserObjectRetain": _DRIVER,
    "cuImportExternalMemory": _IMPORT,
    "cuIpcOpenMemHandle": _IMPORT,
    "cuIpcOpenMemHandle_v2": _IMPORT,
    "cuMemPoolImportPointer": "a view of memory that its pool's owner was charged for",
    "cuMulticastCreate": _ADDRESS,
    "cuLogicalEndpointCreate": _ADDRESS,
    "cuLogicalEndpointImport": _ADDRESS,
    "cuGLCtxCreate": _FOREIGN,
    "cuGLCtxCreate_v2": _FOREIGN,
    "cuVDPAUCtxCreate": _FOREIGN,
    "cuVDPAUCtxCreate_v2": _FOREIGN,
    "cuModuleLoad": _MODULE,
    "cuModuleLoadData": _MODULE,
    "cuModuleLoadDataEx": _MODULE,
    "cuModuleLoadFatBinary": _MODULE,
    "cuLibraryLoadData": _MODULE,
    "cuLibraryLoadFromFile": _MODULE,
}

# Names processes, or tells the use of one; or changes a card that neighbours share.
SHOWS_OR_CHANGES = re.compile(
    r"nvml(Device(Get\w*(MemoryInfo|UtilizationRates|Process\w*|Accounting(Pids|Stats)\w*|Sessions)"
    r"|Set|Clear|Reset|Create|Remove|Modify|Discover|Freeze"
    r"|PowerSmoothing(?!Get)|WorkloadPowerProfile(?!Get))"
    r"|GpuInstance(Create|Destroy|Set)|ComputeInstance(Create|Destroy)|GpmSet|SystemSet|UnitSet"
    r"|SetVgpu|VgpuInstance(Set|Clear))"
)
_VGPU = "of hosts that rent cards to virtual machines: the driver refuses it on any other"
NVML_LEFT = {
    "nvmlDeviceGetBAR1MemoryInfo": "the window that the processor sees a card by, not its memory",
    "nvmlDeviceGetVgpuProcessUtilization": _VGPU,
    "nvmlDeviceGetVgpuProcessesUtilizationInfo": _VGPU,
    "nvmlDeviceSetVgpuCapabilities": _VGPU,
    "nvmlDeviceSetVgpuHeterogeneousMode": _VGPU,
    "nvmlDeviceSetVgpuSchedulerState": _VGPU,
    "nvmlDeviceSetVgpuSchedulerState_v2": _VGPU,
    "nvmlGpuInstanceSetVgpuHeterogeneousMode": _VGPU,
    "nvmlGpuInstanceSetVgpuSchedulerState": _VGPU,
    "nvmlGpuInstanceSetVgpuSchedulerState_v2": _VGPU,
    "nvmlSetVgpuVersion": _VGPU,
    "nvmlVgpuInstanceClearAccountingPids": _VGPU,
    "nvmlVgpuInstanceSetEncoderCapacity": _VGPU,
    "nvmlDeviceSetCpuAffinity": "of the calling thread",
    "nvmlDeviceClearCpuAffinity": "of the calling thread",
    "nvmlUnitSetLedState": "of Tesla S-class units of 2010, which no supported driver knows",
}


def not_known(names: Iterable[str], pattern: re.Pattern[str], known: Iterable[str]) -> list[str]:
    found = {name for name in names if pattern.match(name)}
    assert len(found) > 30
    return sorted(found - set(known))


@pytest.mark.parametrize(
    "name",
    [
        *("cuMemAlloc_v3", "cuMemPoolAllocate", "cuStreamAllocAsync", "cuArenaCreate"),
        *("cuGraphExecLaunch", "cuKernelLaunch_v2_ptsz", "cuLaunchCluster", "cuMemGetInfo_v3"),
    ],
)
def test_a_name_that_no_driver_has_yet_is_named(name: str, gated: frozenset[str]) -> None:
    assert not_known([*gated, name], TAKES, gated | set(LEFT)) == [name]


@pytest.mark.parametrize("series", driver_files.SERIES)
def test_functions_that_take_of_a_card_are_gated_or_left_with_a_reason(
    series: str, gated: frozenset[str]
) -> None:
    names = exported(driver_files.libraries(series) / "libcuda.so.1")
    assert not_known(names, TAKES, gated | set(LEFT)) == []
    assert not set(LEFT) & gated


@pytest.mark.parametrize("toolkit", ["11.8", "12.9", "13"])
def test_functions_that_a_toolkit_declares_are_gated_or_left_too(
    toolkit: str, gated: frozenset[str]
) -> None:
    (header,) = installed(f"cudart-{toolkit}").rglob("cuda.h")
    command = [sys.executable, f"{SIMGPU}/headers.py", "names", toolkit, f"{header.parent}"]
    lines = subprocess.check_output(command, text=True).splitlines()
    names = {line.split()[0] for line in lines if not line.startswith("#")}
    assert not_known(names, TAKES, gated | set(LEFT)) == []


@pytest.mark.parametrize("series", driver_files.SERIES)
def test_nvml_functions_beyond_a_share_are_gated_or_left_with_a_reason(
    series: str, gated: frozenset[str]
) -> None:
    names = exported(driver_files.libraries(series) / "libnvidia-ml.so.1")
    assert not_known(names, SHOWS_OR_CHANGES, gated | set(NVML_LEFT)) == []
    assert not set(NVML_LEFT) & gated
