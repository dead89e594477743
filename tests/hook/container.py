"""A folder that stands for a container: its files, one simulated card, the hook preloaded."""

import os
import pathlib
import subprocess
import sys
import textwrap

from gpustack.adapters import mapped
from gpustack.wire.mapped import activity, ledger, limits

ROOT = pathlib.Path(__file__).parents[2]
HOOK = ROOT / "hook"
SIMGPU = ROOT / "tests" / "simgpu"
PROGRAMS = {
    path.stem.removeprefix("test_"): path for path in sorted((HOOK / "tests").glob("*/test_*.c"))
}
CARD = "GPU-5d7c1b0a-8a39-4c1e-9d52-0e1f6b2a7c90"
MIB = 1 << 20
CARD_BYTES = 8192 * MIB
SHARE_BYTES = 2048 * MIB
CONTEXT_BYTES = 64 * MIB  # taken by the simulated driver


def make(folder: pathlib.Path, *targets: str) -> None:
    """Build with make, and print its output only if it failed."""
    command = ["make", "-C", str(folder), f"PYTHON={sys.executable}", *targets]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


class Container:
    """A folder that stands for a container: its three files, one card, the hook preloaded."""

    def __init__(self, folder: pathlib.Path, build: pathlib.Path, driver: pathlib.Path) -> None:
        self.folder = folder
        self.simgpu = driver / "bin" / "simgpu"
        self.program = build / "test" / "gpustack-hook-selftest"
        devices = folder.parent / "dev"
        self.environment = os.environ | {
            "LD_PRELOAD": str(build / "test" / "libvcuda.so"),
            "LD_LIBRARY_PATH": str(driver / "lib"),
            "SIMGPU_STATE": str(folder.parent / "state"),
            "SIMGPU_DEV": str(devices),
            "SIMGPU_CARDS": str(folder.parent / "cards.json"),
        }
        folder.mkdir()
        mapped.create_limits(folder / "limits", share(SHARE_BYTES))
        mapped.create_activity(folder / "activity", activity.Activity(sampled_ns=0, cards=()))
        mapped.create_ledger(folder / "ledger", [CARD])

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program in it."""
        return subprocess.run(
            command,
            check=False,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=30,
        )

    def start(self, source: str) -> subprocess.Popen[str]:
        """Start a Python client: ctypes is a plain dlopen and dlsym."""
        return subprocess.Popen(
            [sys.executable, "-c", CLIENT + textwrap.dedent(source)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def client(self, source: str) -> str:
        """Run a Python client and return what it printed."""
        with self.start(source) as process:
            output, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        return output.strip()

    def use(self) -> ledger.CardUse:
        """Return the agent's reading of the container's card."""
        return mapped.read_ledger(self.folder / "ledger").cards[0]


# Written as a client without knowledge of the hook.
CLIENT = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def check(result):
    assert result == 0, result
check(cuda.cuInit(0))
context = ctypes.c_void_p()
def enter():
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
def allocate(size):
    pointer = ctypes.c_uint64()
    result = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
    return result, pointer
def info():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value
"""


def share(memory_bytes: int) -> limits.Limits:
    device = limits.DeviceLimit(
        uuid=CARD,
        memory_bytes=memory_bytes,
        compute_percent=50,
        burst_percent=50,
        context_bytes=CONTEXT_BYTES,
    )
    return limits.Limits(devices=(device,))
