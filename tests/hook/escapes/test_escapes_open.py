"""Ways out that no event of their own names: each test shows what a tenant gets by one.

A change that closes one inverts its test, and the row of `docs/isolation.md` with it.
"""

import pathlib
import struct
import textwrap
import time

import pytest

from gpustack.adapters import mapped
from gpustack.wire.mapped import ledger
from tests.hook.container import CARD_BYTES, Container, share
from tests.hook.escapes.ways_out import Outcome, escape, first_line, judged, own_share, reports_of
from tests.hook.memory.families import FAMILIES
from tests.hook.root import Root, compiled

pytestmark = pytest.mark.long
FREE = "8192 0"  # sees the card; 3 GiB are granted
PAID_UNTIL_OFFSET = ledger.CARDS_OFFSET + 24


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
    "A library by LD_PRELOAD with an mmap that gives the hook limits of the tenant's own",
    Outcome.REPORTED,
    "libraries of LD_PRELOAD stand before the hook, which maps its files through libc. The"
    " container has the whole card, memory and time: memory above its share is named by the event"
    " MemoryAboveShare, and time beyond it by ShareExceeded. An own user and mount namespace does"
    " the same",
)
def test_an_own_mmap_shows_the_hook_other_limits(root: Root, tmp_path: pathlib.Path) -> None:
    root.add(compiled(tmp_path, "own_files.c", "own_files.so", "-shared", "-fPIC"), into="tmp")
    mapped.create_limits(root.folder / "tmp/limits", share(CARD_BYTES))
    ours = own_share(root, tmp_path / "share")
    preload = {"LD_PRELOAD": "/tmp/own_files.so"}
    with root.start("/bin/client", "soname", "3000", "hold", environment=preload) as client:
        assert first_line(client) == FREE
        assert reports_of(root, client.pid, share=ours) == []
        assert judged(ours.folder, [client.pid], root.seen_bytes(client.pid)) == (
            ["MemoryAboveShare"],
            0,
        )
        client.communicate("\n", timeout=30)
