"""Every family that takes device memory: the ledger has the memory that the simulated card lost."""

import pytest

from tests.hook.container import CONTEXT_BYTES, MIB, SHARE_BYTES, Container
from tests.hook.memory.families import FAMILIES, lost

STEPS = {
    "arrays": """
        one = array(1024, 1024, 0, 0x20, 4)
        stop("an array")
        many = array(256, 256, 16, 1, 4, flags=1, levels=4)
        stop("a mipmapped one")
        array(4096, 1024, 0, 1, 1)
        call("cuArrayDestroy", one)
        stop("one less")
        call("cuMipmappedArrayDestroy", many)
        stop("another less")
    """,
    "physical": """
        address, again = u64(), u64()
        call("cuMemAddressReserve", byref(address), size(64 * MIB), size(0), u64(0), u64(0))
        first, second = created(16 * MIB), created(8 * MIB)
        stop("made")
        call("cuMemMap", address, size(16 * MIB), size(0), first, u64(0))
        call("cuMemMap", u64(address.value + 16 * MIB), size(8 * MIB), size(0), second, u64(0))
        call("cuMemRelease", first)
        call("cuMemRelease", second)
        stop("mapped")
        call("cuMemRetainAllocationHandle", byref(again), address)
        call("cuMemUnmap", address, size(24 * MIB))
        stop("unmapped, one retained")
        call("cuMemRelease", again)
        stop("released")
    """,
    "descriptors": """
        one, again, fd = created(16 * MIB), u64(), ctypes.c_int()
        call("cuMemExportToShareableHandle", byref(fd), one, 1, u64(0))
        call("cuMemRelease", one)
        stop("kept by its descriptor alone")
        call("cuMemImportFromShareableHandle", byref(again), handle(fd.value), 1)
        stop("imported where it came from")
        os.close(fd.value)
        stop("kept by a handle alone")
        call("cuMemRelease", again)
        stop("gone")
        other = created(8 * MIB)
        call("cuMemExportToShareableHandle", byref(fd), other, 1, u64(0))
        call("cuMemRelease", other)
        os.close(fd.value)
        info()
        stop("gone by its descriptor, and asked about")
    """,
    "limits": """
        call("cuCtxSetLimit", 0, size(3 * 1024 + 5))
        stop("larger stacks")
        call("cuCtxSetLimit", 0, size(2048))
        stop("smaller ones")
        assert cuda.cuCtxSetLimit(0, size(300 << 10)) == 2
        stop("refused")
        call("cuCtxSetLimit", 0, size(512))
        stop("less than there was")
    """,
    "pools": """
        first, second = given(40 * MIB), given(3)
        stop("given")
        call("cuMemFreeAsync", first, None)
        stop("freed")
        third = given(30 * MIB)
        stop("given again")
        call("cuMemFreeAsync", second, None)
        call("cuMemFreeAsync", third, None)
        call("cuCtxSynchronize")
        stop("synchronised")
        pool, threshold = handle(), u64(1 << 60)
        call("cuMemPoolCreate", byref(pool), POOL)
        call("cuMemPoolSetAttribute", pool, 4, byref(threshold))
        own = u64()
        call("cuMemAllocFromPoolAsync", byref(own), size(50 * MIB), pool, None)
        call("cuMemFreeAsync", own, None)
        call("cuCtxSynchronize")
        stop("kept by its threshold")
        call("cuMemPoolTrimTo", pool, size(0))
        stop("trimmed")
        call("cuMemAllocFromPoolAsync", byref(own), size(50 * MIB), pool, None)
        call("cuMemPoolDestroy", pool)
        stop("destroyed, not empty")
        call("cuMemFreeAsync", own, None)
        call("cuCtxSynchronize")
        stop("empty")
    """,
    "graphs": """
        exec = graph_of(100 * MIB, 30 * MIB)
        stop("instantiated")
        call("cuGraphLaunch", exec, None)
        call("cuCtxSynchronize")
        stop("launched")
        call("cuGraphLaunch", exec, None)
        call("cuCtxSynchronize")
        stop("launched again")
        call("cuDeviceGraphMemTrim", 0)
        stop("trimmed")
    """,
    "shared physical memory": """
        made, again, descriptor = created(16 * MIB), u64(), ctypes.c_int()
        call("cuMemExportToShareableHandle", byref(descriptor), made, 1, u64(0))
        call("cuMemImportFromShareableHandle", byref(again), handle(descriptor.value), 1)
        stop("imported where it was made")
        call("cuMemRelease", made)
        stop("the import keeps it")
        call("cuMemRelease", again)
        os.close(descriptor.value)
        info()  # the hook gets no word of a close: it looks when it is asked
        stop("released")
    """,
    "pools that are gone": """
        pool, pointer = handle(), u64()
        call("cuMemPoolCreate", byref(pool), POOL)
        call("cuMemAllocFromPoolAsync", byref(pointer), size(8 * MIB), pool, None)
        call("cuMemPoolDestroy", pool)
        stop("its memory stays")
        call("cuDevicePrimaryCtxRelease_v2", 0)
        stop("also when the context is released")
        enter()
        call("cuMemPoolCreate", byref(pool), POOL)
        call("cuMemAllocFromPoolAsync", byref(pointer), size(8 * MIB), pool, None)
        stop("another one")
        call("cuMemPoolDestroy", pool)
        call("cuDevicePrimaryCtxReset_v2", 0)
        stop("both went with the reset")
    """,
    "contexts": """
        other = handle()
        call("cuCtxCreate_v2", byref(other), 0, 0)
        array(1024, 1024, 0, 0x20, 4)
        given(20 * MIB)
        call("cuCtxSynchronize")
        stop("another context, and what lies in it")
        call("cuCtxDestroy_v2", other)
        stop("destroyed")
        kept = created(8 * MIB)
        call("cuDevicePrimaryCtxReset_v2", 0)
        stop("reset")
    """,
}


@pytest.mark.parametrize("family", STEPS)
def test_the_ledger_says_what_the_card_lost(container: Container, family: str) -> None:
    with container.start(FAMILIES + "\n".join(
        line.strip() for line in STEPS[family].splitlines()
    )) as client:  # fmt: skip
        assert client.stdin is not None
        assert client.stdout is not None
        steps = 0
        for what in client.stdout:
            steps += 1
            assert (what, container.use().used_bytes) == (what, lost(container))
            client.stdin.write("\n")
            client.stdin.flush()
        assert client.wait(timeout=30) == 0
        assert steps == STEPS[family].count("stop(")


def test_imported_memory_is_charged_to_its_exporter(container: Container) -> None:
    export = """
        enter()
        pointer, handle = allocate(64 << 20)[1], ctypes.create_string_buffer(64)
        check(cuda.cuIpcGetMemHandle(handle, pointer))
        print(handle.raw.hex(), flush=True)
        input()
        """
    with container.start(export) as exporter:
        assert exporter.stdout is not None
        output = container.client(f"""
            class Handle(ctypes.Structure):
                _fields_ = [("bytes", ctypes.c_char * 64)]
            enter()
            handle = Handle.from_buffer_copy(bytes.fromhex("{exporter.stdout.readline().strip()}"))
            pointer, before = ctypes.c_uint64(), info()
            check(cuda.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), handle, 1))
            print(info() == before)
            check(cuda.cuIpcCloseMemHandle(pointer))
            print(info() == before, before[0] >> 20)
            """)
        left = (SHARE_BYTES - 2 * CONTEXT_BYTES) // MIB - 64
        assert output.splitlines() == ["True", f"True {left}"]
        exporter.communicate("\n", timeout=30)
