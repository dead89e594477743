"""What a driver exports and symbols.def doesn't know: new allocations and launches get named."""

import re

import pytest

from tests.hook import driver_files
from tests.hook.test_real_driver import exported

# Takes memory of a card, or runs something on it. Names that only read or set something fall out by
# their verbs.
TAKES = re.compile(
    r"cu(Mem(Alloc(?!Host)|Create|Import|PoolCreate|PoolImport)|\w*Array\w*Create|ArrayCreate"
    r"|Launch|GraphLaunch|GraphInstantiate|GraphUpload|Ctx\w*Create|GreenCtxCreate|IpcOpenMem"
    r"|ImportExternalMemory|DevicePrimaryCtxRetain|MulticastCreate|ModuleLoad|LibraryLoad)"
)
# Known, and not gated, with the reason.
_MODULE = "takes memory that no argument tells: unaccounted, by what the driver sees"
_IMPORT = "who made the memory was charged for it; once that one has gone it is unaccounted"
LEFT = {
    "cuImportExternalMemory": _IMPORT,
    "cuIpcOpenMemHandle": _IMPORT,
    "cuIpcOpenMemHandle_v2": _IMPORT,
    "cuMemPoolImportPointer": "a view of memory that its pool's owner was charged for",
    "cuMulticastCreate": "an address for memory that others hold",
    "cuModuleLoad": _MODULE,
    "cuModuleLoadData": _MODULE,
    "cuModuleLoadDataEx": _MODULE,
    "cuModuleLoadFatBinary": _MODULE,
    "cuLibraryLoadData": _MODULE,
    "cuLibraryLoadFromFile": _MODULE,
}


@pytest.mark.long
@pytest.mark.parametrize("series", driver_files.SERIES)
def test_every_function_that_takes_of_a_card_is_gated_or_left_with_a_reason(
    series: str, gated: frozenset[str]
) -> None:
    names = exported(driver_files.libraries(series) / "libcuda.so.1")
    taking = {name for name in names if TAKES.match(name)}
    assert len(taking) > 30
    assert sorted(taking - gated - set(LEFT)) == [], "not in symbols.def, and not left for a reason"
    assert not set(LEFT) & gated
