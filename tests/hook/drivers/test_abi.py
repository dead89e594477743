"""The hook's own declarations of the driver's ABI, against cuda.h of three generations."""

import pathlib
import re
import subprocess

import pytest

from tests.hook.container import HOOK
from tests.hook.drivers.wheels import installed

WHEELS = ["cudart-11.8", "cudart-12.9", "cudart-13"]

STRUCTS = {
    "CUDA_ARRAY_DESCRIPTOR_v1": ["Width", "Height", "Format", "NumChannels"],
    "CUDA_ARRAY3D_DESCRIPTOR_v1": ["Width", "Height", "Depth", "Format", "NumChannels", "Flags"],
    "CUDA_ARRAY_DESCRIPTOR": ["Width", "Height", "Format", "NumChannels"],
    "CUDA_ARRAY3D_DESCRIPTOR": ["Width", "Height", "Depth", "Format", "NumChannels", "Flags"],
    "CUDA_ARRAY_MEMORY_REQUIREMENTS": ["size", "alignment"],
    "CUmemLocation": ["type", "id"],
    "CUmemAllocationProp": ["type", "location", "allocFlags"],
    "CUmemPoolProps": ["allocType", "location"],
    "CUDA_MEM_ALLOC_NODE_PARAMS": ["poolProps", "bytesize", "dptr"],
    "CUDA_GRAPH_INSTANTIATE_PARAMS": ["flags", "hUploadStream", "hErrNode_out", "result_out"],
}
# Since CUDA 13 the unversioned name is the newer struct: it is laid out alike.
SINCE_12 = {"CUDA_GRAPH_INSTANTIATE_PARAMS"}
CONSTANTS = [
    "CUDA_SUCCESS",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDA_ERROR_NOT_FOUND",
    "CUDA_ERROR_NOT_PERMITTED",
    "CUDA_ERROR_NOT_SUPPORTED",
    "CUDA_ARRAY3D_LAYERED",
    "CUDA_ARRAY3D_CUBEMAP",
    "CUDA_ARRAY3D_SPARSE",
    "CUDA_ARRAY3D_DEFERRED_MAPPING",
    "CU_MEM_LOCATION_TYPE_DEVICE",
    "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT",
    "CU_MEMPOOL_ATTR_USED_MEM_CURRENT",
    "CU_GRAPH_NODE_TYPE_GRAPH",
    "CU_GRAPH_NODE_TYPE_MEM_ALLOC",
    "CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT",
    "CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT",
    "CU_LIMIT_MALLOC_HEAP_SIZE",
    "CU_LIMIT_STACK_SIZE",
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
    "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR",
]
# As the entry points expand symbols.def, one line a function.
LISTING = """
#define LOADER_GATE(name)
#define NVML_GATE(name, ...)
#define NVML_REAL(name, ...)
#define CUDA_GATE(name, args, ...) @name(__VA_ARGS__)@
#define CUDA_REAL(name, ...) @name(__VA_ARGS__)@
#include "symbols.def"
"""


def compiler(*arguments: str | pathlib.Path, source: str) -> str:
    """Run the C compiler on a source text."""
    command = ["cc", "-x", "c", *map(str, arguments), "-"]
    result = subprocess.run(command, check=False, input=source, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:2000]
    return result.stdout


def printed(
    folder: pathlib.Path, include: str, flags: list[str], values: dict[str, str]
) -> dict[str, int]:
    """Return the values of C expressions where a header is included."""
    lines = "".join(
        f'printf("{name} %ld\\n", (long)({value}));\n' for name, value in values.items()
    )
    source = f"#include <stddef.h>\n#include <stdio.h>\n{include}\nint main(void) {{ {lines} }}"
    program = folder / "print"
    compiler(*flags, "-w", "-o", program, source=source)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


def parameters(text: str) -> list[str]:
    """Return the types of a parameter list, without the names."""
    types = []
    for parameter in text.split(","):
        stripped = parameter.strip()
        if stripped != "void":
            types.append(re.sub(r"(?<=[\s*])\w+$", "", stripped))
    return types


def own_functions() -> dict[str, list[str]]:
    """Return every function of symbols.def by the name that cuda.h declares."""
    text = compiler("-E", "-P", f"-I{HOOK / 'src'}", source=LISTING)
    found = re.findall(r"@(\w+)\(([^@]*)\)@", text)
    return {name.removesuffix("_ptsz"): parameters(" ".join(args.split())) for name, args in found}


def headers_functions(header: pathlib.Path) -> dict[str, list[str]]:
    """Return every prototype of a cuda.h, of all versions."""
    source = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
    text = compiler("-E", "-P", f"-I{header.parent}", source=source)
    found = re.findall(r"CUresult\s+(cu\w+)\s*\(([^()]*)\)\s*;", text)
    return {name: parameters(" ".join(args.split())) for name, args in found}


def cuda_header(wheel: str) -> pathlib.Path:
    """Return the driver's header out of a runtime's wheel."""
    (header,) = installed(wheel).rglob("cuda.h")
    return header


OWN = (
    '#include "loader/drivers.h"',
    [f"-I{HOOK / 'src'}", f"-I{HOOK / 'include'}", "-D_GNU_SOURCE"],
)


def theirs(header: pathlib.Path) -> tuple[str, list[str]]:
    """Return the macros that make all versions of all types visible."""
    return "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>", [f"-I{header.parent}"]


@pytest.mark.long
@pytest.mark.parametrize("wheel", WHEELS)
def test_structs_and_constants_are_the_drivers(tmp_path: pathlib.Path, wheel: str) -> None:
    values = {name: name for name in CONSTANTS}
    for struct, fields in STRUCTS.items():
        if struct not in SINCE_12 or wheel != "cudart-11.8":
            values[struct] = f"sizeof({struct})"
            values |= {f"{struct}.{name}": f"offsetof({struct}, {name})" for name in fields}
    header = cuda_header(wheel)
    assert printed(tmp_path, *OWN, values) == printed(tmp_path, *theirs(header), values)


@pytest.mark.long
@pytest.mark.parametrize("wheel", WHEELS)
def test_parameters_are_as_wide_as_the_drivers(tmp_path: pathlib.Path, wheel: str) -> None:
    header = cuda_header(wheel)
    own, real = own_functions(), headers_functions(header)
    common = own.keys() & real.keys()
    assert len(common) > 60
    for name in common:
        assert len(own[name]) == len(real[name]), name

    def widths(functions: dict[str, list[str]]) -> dict[str, str]:
        return {
            f"{name}.{place}": f"sizeof({kind})"
            for name in common
            for place, kind in enumerate(functions[name])
        }

    assert printed(tmp_path, *OWN, widths(own)) == printed(tmp_path, *theirs(header), widths(real))


@pytest.mark.long
def test_every_function_is_one_of_the_drivers() -> None:
    known = set().union(*(headers_functions(cuda_header(wheel)) for wheel in WHEELS))
    assert own_functions().keys() - known == set()
