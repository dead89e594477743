"""Ways out that are open, without a report: each test shows what a tenant gets by one.

A change that closes one inverts its test, and the row of `docs/isolation.md` with it.
"""

import dataclasses
import pathlib
import struct
import subprocess
import textwrap
import time

import pytest

from gpustack.adapters import mapped
from gpustack.agent.activity.shares import Share
from gpustack.agent.activity.unaccounted import UnaccountedMemory
from gpustack.wire.mapped import ledger
from tests.hook.container import CARD, CARD_BYTES, CONTEXT_BYTES, MIB, Container, share
from tests.hook.escapes.ways_out import SHARE, Outcome, escape, reports_of, unaccounted_bytes
from tests.hook.memory.families import FAMILIES, lost
from tests.hook.root import HOOK_PATH, LIBRARIES, Root, compiled

pytestmark = pytest.mark.long
FREE = "8192 0"  # sees the card; 3 GiB are granted
SUM_OFFSET = ledger.CARDS_OFFSET + 16
PAID_UNTIL_OFFSET = ledger.CARDS_OFFSET + 24


def first_line(client: "subprocess.Popen[str]") -> str:
    assert client.stdout is not None
    return client.stdout.readline().strip()


def own_share(root: Root, folder: pathlib.Path) -> Share:
    folder.mkdir()
    for path in ("etc/vcuda/limits", "etc/vcuda/ledger"):
        (folder / pathlib.Path(path).name).hardlink_to(root.folder / path)
    return dataclasses.replace(SHARE, folder=folder)


@escape(
    "Clearing the ledger's sum while the processes' own figures stay honest",
    Outcome.OPEN,
    "the sum decides and the agent compares the figures, which agree with the driver: a container"
    " takes the whole card's memory, and no event comes",
)
def test_a_cleared_sum_grants_the_share_again(root: Root) -> None:
    clients = []
    for _ in range(3):
        with (root.folder / "etc/vcuda/ledger").open("r+b") as file:
            file.seek(SUM_OFFSET)
            (word,) = struct.unpack("<Q", file.read(8))
            file.seek(SUM_OFFSET)
            file.write(struct.pack("<Q", word >> 36 << 36))
        clients.append(root.start("/bin/client", "soname", "1800", "hold"))
        assert first_line(clients[-1]) == "2048 0"
    assert root.use().used_bytes == 3 * (CONTEXT_BYTES + 1800 * MIB)
    for client in clients:
        with client:
            client.communicate("\n", timeout=30)


def test_a_zeroed_debt_is_not_paid(container: Container) -> None:
    def waited_ns(debt_ns: int) -> int:
        with (container.folder / "ledger").open("r+b") as file:
            file.seek(PAID_UNTIL_OFFSET)
            until = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + debt_ns if debt_ns else 0
            file.write(struct.pack("<Q", until))
        with container.start(LAUNCH) as process:
            assert first_line(process) == "launched"
            waited = container.use().throttled_ns
            process.communicate("\n", timeout=30)
        return waited

    assert waited_ns(3_000_000_000) > 1_000_000_000  # the start of the program takes its part
    assert waited_ns(0) == 0


LAUNCH = FAMILIES + textwrap.dedent("""
    module, kernel = handle(), handle()
    call("cuModuleLoadData", byref(module), b"module\\0")
    call("cuModuleGetFunction", byref(kernel), module, b"empty_10us")
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    call("cuCtxSynchronize")
    stop("launched")
""")


@escape(
    "Memory that its maker exported before it ended, held by processes that imported it",
    Outcome.OPEN,
    "the maker's charge ends with it, and while a process keeps the descriptor open the driver"
    " shows the memory for none: a container takes the whole card's memory, and no event comes",
)
def test_memory_whose_maker_ended_is_charged_to_no_process(container: Container) -> None:
    held = []
    for number in range(3):
        with container.start(MAKER.format(number=number)) as maker:
            assert first_line(maker) == "made"
            held.append(container.start(HOLDER.format(number=number)))
            assert first_line(held[-1]) == "imported"
            maker.communicate("\n", timeout=30)
    # one context each, of three processes that hold 5 GiB beside them, of a share of 2
    assert container.use().used_bytes == 3 * CONTEXT_BYTES
    assert lost(container) == 3 * (CONTEXT_BYTES + 1700 * MIB)
    assert shown_bytes(container) == dict.fromkeys((each.pid for each in held), CONTEXT_BYTES)
    for holder in held:
        with holder:
            holder.communicate("\n", timeout=30)


def shown_bytes(container: Container) -> dict[int, int]:
    """Return what NVML says of the card's processes, by PID."""
    smi = str(container.simgpu.with_name("nvidia-smi"))
    environment = container.environment | {"LD_PRELOAD": ""}
    shown = subprocess.check_output(
        [smi, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        env=environment,
        text=True,
    )
    return {
        int(pid): int(mebibytes) * MIB
        for pid, mebibytes in (line.split(",") for line in shown.splitlines())
    }


MAKER = (
    FAMILIES
    + """
import socket
shared, listener = ctypes.c_int(), socket.create_server("{number}", family=socket.AF_UNIX)
call("cuMemExportToShareableHandle", byref(shared), created(1700 * MIB), 1, u64(0))
print("made", flush=True)
socket.send_fds(listener.accept()[0], [b"x"], [shared.value])
input()
"""
)
HOLDER = (
    FAMILIES
    + """
import socket
again, connection = handle(), socket.socket(socket.AF_UNIX)
connection.connect("{number}")
descriptor = socket.recv_fds(connection, 1, 1)[1][0]
call("cuMemImportFromShareableHandle", byref(again), handle(descriptor), 1)
stop("imported")
"""
)


@escape(
    "A library by LD_PRELOAD with an mmap that gives the hook limits of the tenant's own",
    Outcome.OPEN,
    "libraries of LD_PRELOAD stand before the hook, which maps its files through libc; where the"
    " real ones are mapped beside them no event comes. The container has the whole card, memory"
    " and time. An own user and mount namespace does the same",
)
def test_an_own_mmap_shows_the_hook_other_limits(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(compiled(tmp_path, "own_files.c", "own_files.so", "-shared", "-fPIC"), into="tmp")
    mapped.create_limits(root.folder / "tmp/limits", share(CARD_BYTES))
    ours = own_share(root, tmp_path / "share")
    preload = {"LD_PRELOAD": "/tmp/own_files.so"}
    with root.start("/bin/client", "soname", "3000", "hold", environment=preload) as client:
        assert first_line(client) == FREE
        assert reports_of(root, client.pid, share=ours) == []
        client.communicate("\n", timeout=30)


@escape(
    "LD_PRELOAD=libcuda.so.1 with a program that is linked with the driver",
    Outcome.OPEN,
    "the driver then stands before the hook, and the program's calls go to it directly. The"
    " process maps the hook, so no event comes. Its memory is counted as unaccounted; its GPU time"
    " is not limited",
)
def test_a_preloaded_driver_stands_before_the_gates(
    root: Root, tmp_path: pathlib.Path, driver: pathlib.Path
) -> None:
    root.add(compiled(tmp_path, "linked.c", "linked", str(driver / "lib" / "libcuda.so.1")))
    preload = {"LD_PRELOAD": f"/{LIBRARIES}/libcuda.so.1"}
    with root.start("/bin/linked", "3000", "hold", environment=preload) as client:
        assert first_line(client) == FREE
        assert reports_of(root, client.pid) == []
        assert unaccounted_bytes(root, client.pid) == CONTEXT_BYTES + 3000 * MIB
        client.communicate("\n", timeout=30)


@escape(
    "A program without the hook that maps the hook's file, the limits and the ledger as data",
    Outcome.OPEN,
    "the agent looks for these files in the process's maps, and finds them: no event comes. Its"
    " memory is counted as unaccounted; its GPU time is not limited",
)
def test_files_mapped_as_data_pass_for_the_hook(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(compiled(tmp_path, "decoy.c", "decoy", "-static"))
    files = (f"/{HOOK_PATH}", "/etc/vcuda/limits", "/etc/vcuda/ledger")
    with root.start("/bin/decoy", *files) as client:
        assert first_line(client) == "up"
        assert reports_of(root, client.pid, share=own_share(root, tmp_path / "share")) == []
        client.communicate("\n", timeout=30)


@escape(
    "Memory past the gates that is taken and released every few seconds",
    Outcome.OPEN,
    "unaccounted is the lowest of three samples, a second apart: what is given back in between"
    " counts for nothing. A container holds the rest of the card for two seconds of three",
)
def test_memory_released_in_between_is_not_counted() -> None:
    samples = UnaccountedMemory()
    found = [
        samples.add(SHARE.owner, CARD, seen_bytes=seen, charged_bytes=0)
        for seen in (5 << 30, 5 << 30, 0) * 20
    ]
    assert max(found) == 0
