"""Families mixed at random: the ledger always has the memory that the simulated card lost."""

import pytest

from tests.hook.container import CONTEXT_BYTES, SHARE_BYTES, Container
from tests.hook.memory.families import FAMILIES, lost

RANDOM = """
import random
rng, live, pools, graphs = random.Random(SEED), [], [], []

def tried(function, *arguments):
    try:
        return function(*arguments)
    except AssertionError as refused:
        assert refused.args[0] == 2, refused.args  # OUT_OF_MEMORY
        return None

def some(most):
    return rng.randrange(1, rng.choice([MIB, most * MIB]))

def hold(release, made, *more):
    if made is not None:
        live.append((release, made, *more))

def plain():
    result, pointer = allocate(some(200))
    assert result in (0, 2)
    hold("cuMemFree_v2", pointer if result == 0 else None)

def from_default_pool():
    pointer = tried(given, some(300))
    hold(*rng.choice([("cuMemFree_v2", pointer), ("cuMemFreeAsync", pointer, None)]))

def from_own_pool():
    if len(pools) < 4:
        pools.append(handle())
        call("cuMemPoolCreate", byref(pools[-1]), POOL)
        threshold = u64(rng.choice([0, 50 * MIB, 1 << 60]))
        call("cuMemPoolSetAttribute", pools[-1], 4, byref(threshold))
    pool, pointer = rng.choice(pools), u64()
    result = cuda.cuMemAllocFromPoolAsync(byref(pointer), size(some(200)), pool, None)
    assert result in (0, 2)
    if result == 0:
        hold("cuMemFreeAsync", pointer, None)
        pointer.pool = pool

# With what came from it: what a destroyed pool keeps until its last free is the driver's choice.
def end_pool():
    if pools:
        pool = pools.pop(rng.randrange(len(pools)))
        call("cuMemPoolDestroy", pool)
        for one in [one for one in live if getattr(one[1], "pool", None) is pool]:
            live.remove(one)
            call(*one)

def trim():
    call("cuDeviceGraphMemTrim", 0)
    if pools:
        call("cuMemPoolTrimTo", rng.choice(pools), size(some(200)))

def physical():
    bytes, address = rng.randrange(1, 60) * 2 * MIB, u64()
    made = tried(created, bytes)
    if made is not None and rng.random() < 0.6:
        call("cuMemAddressReserve", byref(address), size(bytes), size(0), u64(0), u64(0))
        call("cuMemMap", address, size(bytes), size(0), made, u64(0))
        hold("cuMemUnmap", address, size(bytes))
        if rng.random() < 0.7:
            return call("cuMemRelease", made)
    hold("cuMemRelease", made)

def an_array():
    edges = rng.randrange(16, 4000), rng.randrange(16, 4000)
    hold("cuArrayDestroy", tried(array, *edges, 0, 1, rng.choice([1, 2, 4])))

def a_mipmap():
    edges = rng.randrange(16, 2000), rng.randrange(16, 2000)
    made = tried(array, *edges, 0, 0x20, rng.choice([1, 2, 4]), 0, rng.randrange(1, 8))
    hold("cuMipmappedArrayDestroy", made)

def a_graph():
    if len(graphs) < 6:
        graphs.append(graph_of(some(300), some(300)))
    tried(call, "cuGraphLaunch", rng.choice(graphs), None)

def release():
    if live:
        call(*live.pop(rng.randrange(len(live))))

takers = [plain, from_default_pool, from_own_pool, end_pool, trim]
takers += [physical, an_array, a_mipmap, a_graph]
for _ in range(60):
    done = [rng.choice(takers + [release] * 8) for _ in range(5)]
    for one in done:
        one()
    call("cuCtxSynchronize")
    stop(" ".join(one.__name__ for one in done))
while live:
    release()
while pools:
    end_pool()
call("cuCtxSynchronize")
trim()
stop("the end")
"""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_the_ledger_says_what_the_card_lost_after_any_program(
    container: Container, seed: int
) -> None:
    with container.start(FAMILIES + RANDOM.replace("SEED", str(seed))) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        done = [""]
        while done[-1] != "the end":
            done.append(client.stdout.readline().strip())
            used = container.use().used_bytes
            assert (done[-2:], used) == (done[-2:], lost(container))
            assert used <= SHARE_BYTES
            client.stdin.write("\n")
            client.stdin.flush()
        assert client.wait(timeout=30) == 0
        assert used == CONTEXT_BYTES
