"""A client that takes device memory by every family, and the memory that the simulated card lost.

The simulated driver was written from the documentation, without the hook in view.
"""

import re
import subprocess

from tests.hook.container import Container

# Written as a client without knowledge of the hook; sizes of structs as in cuda.h.
FAMILIES = """
import os, struct
u64, size, handle, byref = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p, ctypes.byref
MIB = 1 << 20
DEVICE = struct.pack("<iiiiQ8x", 1, 1, 1, 0, 0)  # CUmemAllocationProp: by descriptor, device 0
POOL = struct.pack("<iiiiQ64x", 1, 0, 1, 0, 0)  # CUmemPoolProps

def call(name, *arguments):
    check(getattr(cuda, name)(*arguments))

def created(bytes):
    made = u64()
    call("cuMemCreate", byref(made), size(bytes), DEVICE, u64(0))
    return made

def given(bytes, stream=None):
    pointer = u64()
    call("cuMemAllocAsync", byref(pointer), size(bytes), stream)
    return pointer

def array(width, height, depth, format, channels, flags=0, levels=None):
    made = handle()
    text = struct.pack("<QQQIIII", width, height, depth, format, channels, flags, 0)
    if levels is None:
        call("cuArray3DCreate_v2", byref(made), text)
    else:
        call("cuMipmappedArrayCreate", byref(made), text, levels)
    return made

def graph_of(*sizes):
    graph, node, exec = handle(), handle(), handle()
    call("cuGraphCreate", byref(graph), 0)
    for bytes in sizes:
        text = bytearray(POOL + struct.pack("<QQQQ", 0, 0, bytes, 0))
        text = (ctypes.c_char * len(text)).from_buffer(text)
        call("cuGraphAddMemAllocNode", byref(node), graph, None, size(0), text)
        pointer = struct.unpack_from("<Q", text, len(text) - 8)[0]
        after, free = handle(node.value), handle()
        call("cuGraphAddMemFreeNode", byref(free), graph, byref(after), size(1), u64(pointer))
    call("cuGraphInstantiateWithFlags", byref(exec), graph, u64(0))
    return exec

def stop(what):
    print(what, flush=True)
    input()

enter()
"""


def lost(container: Container) -> int:
    """Return the memory that the simulated card reports as taken, in bytes."""
    environment = container.environment | {"LD_PRELOAD": ""}
    shown = subprocess.check_output([container.simgpu, "show"], env=environment, text=True)
    found = re.search(r": (\d+) of", shown)
    assert found is not None, shown
    return int(found[1])
