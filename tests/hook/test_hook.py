"""The hook: its own programs, one behaviour each, and the simulated driver behind it.

The programs of ``hook/tests`` run on a small fake driver with injected faults. What follows them
here runs unmodified clients on ``tests/simgpu``, with the files that the agent writes.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from gpustack.adapters import mapped
from gpustack.wire import activity, layout, ledger, limits

ROOT = pathlib.Path(__file__).parents[2]
HOOK = ROOT / "hook"
SIMGPU = ROOT / "tests" / "simgpu"
PROGRAMS = sorted(path.stem.removeprefix("test_") for path in (HOOK / "tests").glob("test_*.c"))
CARD = "GPU-5d7c1b0a-8a39-4c1e-9d52-0e1f6b2a7c90"
MIB = 1 << 20
CARD_BYTES = 8192 * MIB
SHARE_BYTES = 2048 * MIB
CONTEXT_BYTES = 64 * MIB  # what the simulated driver takes


def make(folder: pathlib.Path, *targets: str) -> None:
    """Build with make, printing what it said only if it failed."""
    command = ["make", "-C", str(folder), f"PYTHON={sys.executable}", *targets]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="session")
def build() -> pathlib.Path:
    """The hook's build folder, with the product's files and the tests' variant."""
    make(HOOK, "all", "tests")
    return HOOK / "out"


@pytest.fixture(scope="session")
def driver() -> pathlib.Path:
    """The simulated driver's build folder."""
    make(SIMGPU)
    return SIMGPU / "out"


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
        """What the agent reads of the container's card."""
        return mapped.read_ledger(self.folder / "ledger").cards[0]


# Written as a client that knows nothing of us.
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


@pytest.fixture
def container(tmp_path: pathlib.Path, build: pathlib.Path, driver: pathlib.Path) -> Container:
    """A container with a quarter of an 8 GiB card."""
    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (devices / name).touch()
    card = {"minor": 0, "uuid": CARD, "memory": CARD_BYTES}
    (tmp_path / "cards.json").write_text(json.dumps({"cards": [card]}))
    made = Container(tmp_path / "container", build, driver)
    environment = made.environment | {"LD_PRELOAD": ""}
    subprocess.run([made.simgpu, "init"], check=True, env=environment)
    return made


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(build: pathlib.Path, program: str) -> None:
    command = [str(HOOK / "tests" / "run.sh"), str(build / "test"), program]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def overlay(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder on overlayfs, which has the root of live systems and immutable distributions.

    A mapping there doesn't hold the file that was opened, but the one of the layer below.
    """
    if os.geteuid() != 0:
        pytest.skip("mounting an overlayfs needs root")
    layers = {name: tmp_path / "overlay" / name for name in ("lower", "upper", "work", "merged")}
    for folder in layers.values():
        folder.mkdir(parents=True)
    options = "lowerdir={lower},upperdir={upper},workdir={work}".format(**layers)
    command = ["mount", "-t", "overlay", "overlay", "-o", options, str(layers["merged"])]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        pytest.skip(f"this machine mounts no overlayfs on {tmp_path}: {result.stderr.strip()}")
    yield layers["merged"]
    # Lazily: a program that failed may have left a child behind.
    subprocess.run(["umount", "--lazy", str(layers["merged"])], check=True)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_on_overlayfs(build: pathlib.Path, overlay: pathlib.Path, program: str) -> None:
    command = [str(HOOK / "tests" / "run.sh"), str(build / "test"), program]
    environment = os.environ | {"TMPDIR": str(overlay)}
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_file_needs_libc_alone_and_exports_the_list(build: pathlib.Path, arch: str) -> None:
    command = [
        str(HOOK / "tests" / "check_files.sh"),
        str(build / arch),
        str(build / "exports.map"),
    ]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_build_in_another_folder_gives_the_same_bytes(
    build: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for name in ("include", "src", "selftest"):
        shutil.copytree(HOOK / name, tmp_path / "hook" / name)
    shutil.copy(HOOK / "Makefile", tmp_path / "hook")
    (tmp_path / "gpustack").mkdir()
    shutil.copy(ROOT / "gpustack" / "__init__.py", tmp_path / "gpustack")
    files = ["x86_64/libvcuda.so", "x86_64/gpustack-hook-selftest"]
    make(tmp_path / "hook", *(f"out/{file}" for file in files))
    for file in files:
        assert (tmp_path / "hook" / "out" / file).read_bytes() == (build / file).read_bytes()


def test_selftest_finds_that_the_limits_hold(container: Container) -> None:
    result = container.run(str(container.program))
    report = json.loads(result.stdout)
    assert result.returncode == 0, result.stdout
    assert report["holds"] is True
    assert report["limits"]["devices"][0]["memory_bytes"] == SHARE_BYTES
    assert report["cards"][0]["total_bytes"] == SHARE_BYTES
    assert {"cuMemAlloc_v2", "cuMemGetInfo_v2", "cuGetProcAddress_v2"} <= set(report["gated"])


def test_selftest_says_what_is_wrong_without_the_hook(container: Container) -> None:
    container.environment["LD_PRELOAD"] = ""
    result = container.run(str(container.program))
    assert result.returncode == 1
    problems = json.loads(result.stdout)["problems"]
    assert "the hook is not loaded into this process" in problems
    assert "cuMemAlloc_v2 is not gated" in problems
    assert any("more than the share" in problem for problem in problems)


def test_selftest_says_that_there_are_no_limits(container: Container) -> None:
    (container.folder / "limits").unlink()
    result = container.run(str(container.program))
    assert result.returncode == 1
    problems = json.loads(result.stdout)["problems"]
    assert any("limits holds no limits of layout 1" in problem for problem in problems)
    assert any("gives no context: 800" in problem for problem in problems)


def test_the_card_itself_is_charged_no_more_than_the_share(container: Container) -> None:
    output = container.client(
        f"""
        enter()
        free, total = info()
        assert total == {SHARE_BYTES}, total
        assert free == {SHARE_BYTES - CONTEXT_BYTES}, free
        assert allocate(free + 1)[0] == 2
        result, pointer = allocate(free)
        assert result == 0
        assert allocate(1)[0] == 2
        assert info() == (0, total)
        check(cuda.cuMemFree_v2(pointer))
        print(info()[0])
        """
    )
    assert output == str(SHARE_BYTES - CONTEXT_BYTES)
    assert container.use() == ledger.CardUse(uuid=CARD)


def test_a_neighbour_is_unaffected_by_a_tenant_at_its_limit(
    container: Container, build: pathlib.Path, driver: pathlib.Path
) -> None:
    neighbour = Container(container.folder.parent / "neighbour", build, driver)
    fill = f"enter(); check(allocate({SHARE_BYTES - CONTEXT_BYTES})[0]); print('full', flush=True)"
    with container.start(fill + "\ninput()") as tenant:
        assert tenant.stdout is not None
        assert tenant.stdout.readline() == "full\n"
        assert neighbour.client(fill) == "full"
        assert container.use().used_bytes == SHARE_BYTES
        assert neighbour.use().used_bytes == 0
        tenant.communicate("\n", timeout=30)


def test_the_agent_reads_who_uses_what_until_it_is_killed(container: Container) -> None:
    with container.start("enter(); check(allocate(100 << 20)[0]); print(); input()") as tenant:
        assert tenant.stdout is not None
        tenant.stdout.readline()
        reading = mapped.read_ledger(container.folder / "ledger")
        assert [slot.pid for slot in reading.slots] == [tenant.pid]
        assert reading.cards[0].used_bytes == CONTEXT_BYTES + 100 * MIB
        assert reading.cards[0].contexts == 1
        environment = container.environment | {"LD_PRELOAD": ""}
        shown = subprocess.check_output([container.simgpu, "show"], env=environment, text=True)
        assert f": {reading.cards[0].used_bytes} of" in shown  # the ledger says what the card lost
        tenant.send_signal(signal.SIGKILL)
        tenant.wait(timeout=30)
        assert container.use() == ledger.CardUse(uuid=CARD)


def test_the_agent_reads_a_ledger_on_overlayfs_that_is_bound_into_a_container(
    container: Container, overlay: pathlib.Path
) -> None:
    mapped.create_ledger(overlay / "ledger", [CARD])
    source = "enter(); check(allocate(100 << 20)[0]); print(flush=True); input()"
    command = [sys.executable, "-c", CLIENT + source]
    namespaces = ["unshare", "--mount", "--pid", "--fork"]
    bound = ["sh", "-c", 'mount --bind "$0" ledger && exec "$@"', str(overlay / "ledger")]
    with subprocess.Popen(
        [*namespaces, *bound, *command],
        cwd=container.folder,
        env=container.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as tenant:
        assert tenant.stdout is not None
        assert tenant.stdout.readline() == "\n"
        reading = mapped.read_ledger(overlay / "ledger")
        assert [slot.pid for slot in reading.slots] == [1]  # as the container's namespace has it
        assert reading.cards[0].used_bytes == CONTEXT_BYTES + 100 * MIB
        assert container.use() == ledger.CardUse(uuid=CARD)  # what the mount covers
        tenant.communicate("\n", timeout=30)
    assert tenant.returncode == 0
    assert mapped.read_ledger(overlay / "ledger").cards == (ledger.CardUse(uuid=CARD),)


def test_a_limit_that_the_agent_changes_holds_at_once(container: Container) -> None:
    source = """
        enter()
        for _ in range(2):
            result, pointer = allocate(3000 << 20)
            print(result, info()[1] >> 20, flush=True)
            input()
        """
    with container.start(source) as tenant:
        assert tenant.stdout is not None
        assert tenant.stdout.readline() == "2 2048\n"
        mapped.publish_limits(container.folder / "limits", share(4096 * MIB))
        assert tenant.stdin is not None
        tenant.stdin.write("\n")
        tenant.stdin.flush()
        assert tenant.stdout.readline() == "0 4096\n"
        tenant.communicate("\n", timeout=30)


def test_what_no_ledger_explains_counts_against_the_share(container: Container) -> None:
    seen = activity.CardActivity(uuid=CARD, unaccounted_bytes=500 * MIB)
    mapped.publish_activity(
        container.folder / "activity", activity.Activity(sampled_ns=1, cards=(seen,))
    )
    rest = SHARE_BYTES - CONTEXT_BYTES - 500 * MIB
    assert container.client(f"enter(); print(info()[0], allocate({rest + 1})[0])") == f"{rest} 2"


def test_unmodified_nvidia_smi_shows_the_share(container: Container, driver: pathlib.Path) -> None:
    query = ["--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"]
    with container.start("enter(); print(); input()") as tenant:
        assert tenant.stdout is not None
        tenant.stdout.readline()
        result = container.run(str(driver / "bin" / "nvidia-smi"), *query)
        tenant.communicate("\n", timeout=30)
    assert result.stdout.replace(" ", "") == "2048,64\n"


def test_a_ledger_that_the_tenant_cut_is_refused_and_not_mapped(container: Container) -> None:
    os.truncate(container.folder / "ledger", 100)
    with pytest.raises(layout.LayoutError, match="100 bytes"):
        mapped.read_ledger(container.folder / "ledger")
    assert (
        container.client("print(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))") == "800"
    )
