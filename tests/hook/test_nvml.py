"""Programs that ask NVML see their own processes and memory in a share, and no neighbour's."""

import json
import pathlib
import sys
from typing import Any

import pytest

from tests.hook.container import CARD, CONTEXT_BYTES, MIB, SHARE_BYTES, Container

# A client of NVIDIA's Python package, as nvitop or gpustat are.
ASK = """
import json, sys
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
def samples():
    try:
        return [[each.pid, each.smUtil] for each in pynvml.nvmlDeviceGetProcessUtilization(card, 0)]
    except pynvml.NVMLError_NotFound:
        return []
memory = pynvml.nvmlDeviceGetMemoryInfo(card)
said = {
    "processes": [
        [[each.pid, each.usedGpuMemory] for each in ask(card)]
        for ask in (
            pynvml.nvmlDeviceGetComputeRunningProcesses,
            pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
            pynvml.nvmlDeviceGetGraphicsRunningProcesses,
            pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
        )
    ],
    "memory": [memory.total, memory.used, memory.free],
    "utilisation": pynvml.nvmlDeviceGetUtilizationRates(card).gpu,
    "samples": samples(),
    "cards": [pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetUUID(card)],
}
print(json.dumps(said))
"""
# Launches without a pause for as long as its input is open.
FLOOD = """
enter()
import threading
module, spin = ctypes.c_void_p(), ctypes.c_void_p()
image = b".version 6.0\\n.target sm_50\\n.visible .entry spin(.param .u32 us) { ret; }"
check(cuda.cuModuleLoadData(ctypes.byref(module), image))
check(cuda.cuModuleGetFunction(ctypes.byref(spin), module, b"spin"))
length = ctypes.c_uint32(2000)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(length))
over = threading.Event()
def flood():
    check(cuda.cuCtxSetCurrent(context))
    while not over.is_set():
        for _ in range(4):
            check(cuda.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))
        check(cuda.cuStreamSynchronize(None))
thread = threading.Thread(target=flood)
thread.start()
print("launching", flush=True)
input()
over.set()
thread.join()
"""


def said_to(container: Container) -> Any:
    """Return NVML's answers to a program of the container."""
    result = container.run(sys.executable, "-c", ASK)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def smi(container: Container, driver: pathlib.Path, *query: str) -> list[str]:
    fields = f"--query-gpu={','.join(query)}"
    result = container.run(
        str(driver / "bin" / "nvidia-smi"), fields, "--format=csv,noheader,nounits"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.strip().split(", ")


@pytest.fixture
def neighbour(container: Container, build: pathlib.Path, driver: pathlib.Path) -> Container:
    """Another container on the same card."""
    return Container(container.folder.parent / "neighbour", build, driver)


def test_a_tenant_sees_its_own_processes_and_memory_and_no_neighbours(
    container: Container, neighbour: Container
) -> None:
    source = "enter(); check(allocate(100 << 20)[0]); print(flush=True); input()"
    with container.start(source) as tenant, neighbour.start(source) as other:
        for process in (tenant, other):
            assert process.stdout is not None
            process.stdout.readline()
        said = said_to(container)
        for process in (tenant, other):
            process.communicate("\n", timeout=30)
    used = CONTEXT_BYTES + 100 * MIB
    own = [[tenant.pid, used]]
    assert said["processes"] == [own, own, [], []]
    assert said["memory"] == [SHARE_BYTES, used, SHARE_BYTES - used]
    assert said["cards"] == [1, CARD]


@pytest.mark.clock
def test_a_neighbours_work_is_no_utilisation_of_ours(
    container: Container, neighbour: Container, build: pathlib.Path, driver: pathlib.Path
) -> None:
    host = Container(container.folder.parent / "host", build, driver)
    host.environment["LD_PRELOAD"] = ""
    with neighbour.start(FLOOD) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "launching\n"
        said = said_to(container)
        shown = smi(container, driver, "utilization.gpu", "memory.used")
        while int(smi(host, driver, "utilization.gpu")[0]) < 30:
            pass  # the card's last second fills up
        again = said_to(container)
        other.communicate("\n", timeout=30)
    for each in (said, again):
        assert (each["utilisation"], each["samples"], each["processes"]) == (0, [], [[]] * 4)
    assert shown == ["0", "0"]


@pytest.mark.clock
def test_a_tenants_use_of_a_card_is_its_utilisation(
    container: Container, driver: pathlib.Path
) -> None:
    with container.start(FLOOD) as tenant:
        assert tenant.stdout is not None
        assert tenant.stdout.readline() == "launching\n"
        while int(smi(container, driver, "utilization.gpu")[0]) < 40:
            pass  # the saved time goes first, and the limiter learns the kernels' lengths
        said = said_to(container)
        tenant.communicate("\n", timeout=30)
    (sample,) = said["samples"]
    assert sample[0] == tenant.pid
    assert 30 <= sample[1] <= 70  # of 50 % in a sixth of a second
    assert 30 <= said["utilisation"] <= 70


def test_only_the_given_cards_have_a_handle(container: Container) -> None:
    source = """
        import pynvml
        pynvml.nvmlInit()
        for ask, name in (
            (pynvml.nvmlDeviceGetHandleByUUID, "GPU-00000000-0000-0000-0000-000000000001"),
            (pynvml.nvmlDeviceGetHandleByIndex, 1),
            (pynvml.nvmlDeviceGetHandleByPciBusId, "0000:66:00.0"),
        ):
            try:
                ask(name)
            except pynvml.NVMLError as error:
                print(type(error).__name__)
        try:
            pynvml.nvmlDeviceGetProcessUtilization(pynvml.nvmlDeviceGetHandleByIndex(0), 0)
        except pynvml.NVMLError as error:
            print(type(error).__name__)
        """
    assert container.client(source).split() == [
        "NVMLError_NotFound", "NVMLError_InvalidArgument", "NVMLError_NotFound",
        "NVMLError_NotFound",
    ]  # fmt: skip


def test_nvml_needs_limits_to_answer(container: Container) -> None:
    (container.folder / "limits").unlink()
    result = container.run(sys.executable, "-c", ASK)
    assert "NVMLError_NoPermission" in result.stderr
    assert result.stdout == ""
