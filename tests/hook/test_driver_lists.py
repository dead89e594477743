"""What a driver exports and symbols.def doesn't know: new allocations and launches get named.

Drivers that no Debian has are known by the cuda.h of their toolkits.
"""

import re
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.hook import driver_files
from tests.hook.container import SIMGPU
from tests.hook.test_real_driver import exported
from tests.hook.wheels import installed

pytestmark = pytest.mark.long

# Takes memory of a card, runs something on it, or begins and ends what isn't to be measured. Names
# that only read or set something fall out by their verbs.
TAKES = re.compile(
    r"cu(Mem(Alloc(?!Host)|Create|Import|PoolCreate|PoolImport)|\w*Array\w*Create|ArrayCreate"
    r"|Launch|GraphLaunch|GraphInstantiate|GraphUpload|\w*CtxCreate|IpcOpenMem"
    r"|Stream(Begin|End)\w*apture|StreamAddCallback"
    r"|ImportExternalMemory|DevicePrimaryCtxRetain|MulticastCreate|LogicalEndpoint(Create|Import)"
    r"|ModuleLoad|LibraryLoad)"
)
# Known, and not gated, with the reason.
_MODULE = "takes memory that no argument tells: unaccounted, by what the driver sees"
_IMPORT = "who made the memory was charged for it; once that one has gone it is unaccounted"
_ADDRESS = "an address for memory that others hold"
_FOREIGN = "of another API, charged when the thread that it is current to first asks for something"
LEFT = {
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

# Names processes, or says how much one uses; or changes a card that others share.
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


@pytest.mark.parametrize("series", driver_files.SERIES)
def test_every_function_that_takes_of_a_card_is_gated_or_left_with_a_reason(
    series: str, gated: frozenset[str]
) -> None:
    names = exported(driver_files.libraries(series) / "libcuda.so.1")
    assert not_known(names, TAKES, gated | set(LEFT)) == []
    assert not set(LEFT) & gated


@pytest.mark.parametrize("toolkit", ["11.8", "12.9", "13"])
def test_so_is_every_one_that_a_toolkit_declares(toolkit: str, gated: frozenset[str]) -> None:
    (header,) = installed(f"cudart-{toolkit}").rglob("cuda.h")
    command = [sys.executable, f"{SIMGPU}/headers.py", "names", toolkit, f"{header.parent}"]
    lines = subprocess.check_output(command, text=True).splitlines()
    names = {line.split()[0] for line in lines if not line.startswith("#")}
    assert not_known(names, TAKES, gated | set(LEFT)) == []


@pytest.mark.parametrize("series", driver_files.SERIES)
def test_every_function_that_shows_neighbours_or_changes_a_card_is_gated_or_left_with_a_reason(
    series: str, gated: frozenset[str]
) -> None:
    names = exported(driver_files.libraries(series) / "libnvidia-ml.so.1")
    assert not_known(names, SHOWS_OR_CHANGES, gated | set(NVML_LEFT)) == []
    assert not set(NVML_LEFT) & gated
