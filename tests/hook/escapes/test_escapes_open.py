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
from tests.hook.container import CARD, CARD_BYTES, Container, share
from tests.hook.escapes.ways_out import Outcome, escape, first_line, judged, own_share, reports_of
from tests.hook.memory.families import FAMILIES
from tests.hook.root import Root, compiled

pytestmark = pytest.mark.long
FREE = "8192 0"  # sees the card; 3 GiB are granted
PAID_UNTIL_OFFSET = ledger.CARDS_OFFSET + 24
NS_PER_S = 1_000_000_000


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def waited_ns(container: Container, debt_ns: int) -> int:
    """Return how long a program's first launch waits for a debt in the ledger."""
    with (container.folder / "ledger").open("r+b") as file:
        file.seek(PAID_UNTIL_OFFSET)
        file.write(struct.pack("<Q", now_ns() + debt_ns if debt_ns else 0))
    with container.start(LAUNCH) as process:
        assert first_line(process) == "launched"
        waited = container.use().throttled_ns
        process.communicate("\n", timeout=30)
    return waited


def test_a_zeroed_debt_is_not_paid(container: Container) -> None:
    assert waited_ns(container, 3 * NS_PER_S) > NS_PER_S  # the start of the program takes its part
    assert waited_ns(container, 0) == 0


def test_a_clock_ahead_neither_pays_nor_makes_debt(
    container: Container, tmp_path: pathlib.Path
) -> None:
    own = compiled(tmp_path, "own_libc.c", "own_libc.so", "-shared", "-fPIC")
    container.environment["LD_PRELOAD"] = f"{own}:{container.environment['LD_PRELOAD']}"
    assert waited_ns(container, 3 * NS_PER_S) > NS_PER_S
    paid_until_ns = (container.folder / "ledger").read_bytes()[PAID_UNTIL_OFFSET:][:8]
    assert struct.unpack("<Q", paid_until_ns)[0] < now_ns() + NS_PER_S


LAUNCH = FAMILIES + textwrap.dedent("""
    module, kernel = handle(), handle()
    call("cuModuleLoadData", byref(module), b"module\\0")
    call("cuModuleGetFunction", byref(kernel), module, b"empty_10us")
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    call("cuCtxSynchronize")
    stop("launched")
""")


@escape(
    "Files of the tenant's own in the place of ours, in a user and mount namespace of its own, or"
    " by a seccomp filter whose supervisor answers the hook's open, with the real files mapped"
    " beside; or another time, by a time namespace",
    Outcome.REPORTED,
    "the hook takes what the kernel gives it. The container has the whole card, memory and time:"
    " memory above its share is named by the event MemoryAboveShare, and time beyond it by"
    " ShareExceeded",
)
def test_real_files_beside_own_ones_show_by_what_is_used(
    root: Root, tmp_path: pathlib.Path
) -> None:
    ours = own_share(root, tmp_path / "share")
    for name in mapped.FORMS:
        (root.folder / "etc/vcuda" / name).rename(root.folder / "tmp" / name)
    mapped.create_limits(root.folder / "etc/vcuda/limits", share(CARD_BYTES))
    mapped.create_ledger(root.folder / "etc/vcuda/ledger", [CARD])
    root.add(compiled(tmp_path, "beside.c", "beside.so", "-shared", "-fPIC"), into="tmp")
    preload = {"LD_PRELOAD": "/tmp/beside.so"}
    with root.start("/bin/client", "soname", "3000", "hold", environment=preload) as client:
        assert first_line(client) == FREE
        assert reports_of(root, client.pid, share=ours) == []
        assert (
            "MemoryAboveShare" in judged(ours.folder, [client.pid], root.seen_bytes(client.pid))[0]
        )
        client.communicate("\n", timeout=30)
