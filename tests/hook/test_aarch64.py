"""The aarch64 hook under qemu: its assembly and its calls on that architecture.

The product's own library and selftest run in a root with Debian's C library for aarch64, behind
/etc/ld.so.preload, on the tests' fake driver. qemu and the C library are files of Debian packages
in the cache; nothing is installed.

The order in which cores see each other's writes is not tested: qemu runs this code on a machine
with a stronger order than aarch64's. The code relies on shared words that are sequentially
consistent, and on no test, for that order.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

from tests.hook.container import HOOK, make
from tests.hook.drivers.debian import Package, unpacked

pytestmark = pytest.mark.long

# Left out: programs that need ptrace, /proc or MADV_DONTFORK, which qemu lacks, or the clock.
PROGRAMS = [
    "captured_launches_are_left_alone",
    "each_card_has_its_own_limit",
    "errno_and_context_are_kept",
    "every_family_closes_without_limits",
    "every_way_to_a_symbol_is_gated",
    "every_way_to_allocate_is_charged",
    "killed_process_gives_every_kind_back",
    "limits_change_live",
    "linked_program_is_gated",
    "memory_stops_at_the_share",
    "next_and_default_mean_what_they_mean",
    "noise_in_the_ledger_crashes_no_gate",
    "processes_share_one_limit",
    "second_copy_has_its_own_gates",
    "tenant_sees_its_share",
    "threads_share_one_limit",
    "threads_share_pools_and_physical_memory",
]
LIBRARIES = "usr/local/nvidia/lib64"
FILES = {
    "etc/vcuda/limits": "limits",
    "etc/vcuda/activity": "activity",
    "etc/vcuda/ledger": "ledger",
}


class Machine:
    """A root of another architecture, with the mapped files of its working directory."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        for name in ("build/copy", "etc/vcuda/hook", LIBRARIES, "tmp", "work"):
            (folder / name).mkdir(parents=True)
        qemu = unpacked(Package(suite="bookworm", name="qemu-user-static"))
        shutil.copy(qemu / "usr/bin/qemu-aarch64-static", folder / "qemu")
        libc = unpacked(Package(suite="bookworm", name="libc6-arm64-cross"))
        shutil.copytree(libc / "usr/aarch64-linux-gnu/lib", folder / "lib", symlinks=True)
        for path, name in FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(f"/work/{name}")
        (folder / "etc/ld.so.preload").write_text("/etc/vcuda/hook/libvcuda.so\n")
        self._install()

    def _install(self) -> None:
        programs = [f"test_{name}" for name in PROGRAMS] + ["loader_gate"]
        product = ("libvcuda.so", "gpustack-hook-selftest")
        out = HOOK / "out" / "aarch64"
        make(
            HOOK,
            *(f"out/aarch64/{name}" for name in product),
            *(f"out/aarch64/test/{name}" for name in programs),
        )
        for name in product:
            shutil.copy(out / name, self._folder / "etc/vcuda/hook")
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            shutil.copy(out / "test/driver" / name, self._folder / LIBRARIES)
        shutil.copy(out / "test/driver/libcuda.so.1", self._folder / "build/copy")
        shutil.copytree(out / "test/plugins", self._folder / "build/plugins")
        for name in programs:
            shutil.copy(out / "test" / name, self._folder / "build")

    def begin(self) -> None:
        """Forget the files of the program before."""
        for name in FILES.values():
            (self._folder / "work" / name).unlink(missing_ok=True)

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        """Run a program of it, with the hook preloaded by its loader."""
        environment = (f"LD_LIBRARY_PATH=/{LIBRARIES}", "TEST_BUILD=/build")
        command = ["unshare", f"--root={self._folder}", "--wd=/work", "/qemu"]
        settings = [word for each in environment for word in ("-E", each)]
        return subprocess.run(
            [*command, *settings, program],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    return Machine(tmp_path_factory.mktemp("aarch64"))


def test_loader_gates_keep_arguments_caller_and_registers_under_qemu(machine: Machine) -> None:
    result = machine.run("/build/loader_gate")
    assert result.returncode == 0, result.stderr


def test_loader_gates_keep_arguments_caller_and_registers_here() -> None:
    make(HOOK, "out/test/loader_gate")
    subprocess.run([HOOK / "out" / "test" / "loader_gate"], check=True)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(machine: Machine, program: str) -> None:
    machine.begin()
    result = machine.run(f"/build/test_{program}")
    assert result.returncode == 0, result.stdout + result.stderr


def test_selftest_says_that_the_limits_hold(machine: Machine) -> None:
    machine.begin()
    made = machine.run("/build/test_memory_stops_at_the_share")  # it leaves files for two cards
    assert made.returncode == 0, made.stderr
    result = machine.run("/etc/vcuda/hook/gpustack-hook-selftest")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "layout 2: /etc/vcuda/hook/libvcuda.so" in result.stdout
    assert "512 MiB, a byte more than the share" in result.stdout
    assert result.stdout.endswith("The limits hold.\n")
