"""The hook's own declarations of NVML's ABI, against those of NVIDIA's Python package."""

import ctypes
import pathlib

import pynvml
import pytest

from tests.hook.container import HOOK
from tests.hook.drivers.test_abi import OWN, printed

pytestmark = pytest.mark.long

STRUCTS: dict[str, type[ctypes.Structure]] = {
    "nvmlMemory_t": pynvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
    "nvmlProcessInfo_v2_t": pynvml.c_nvmlProcessInfo_v2_t,
    "nvmlProcessDetail_v1_t": pynvml.c_nvmlProcessDetail_v1_t,
    "nvmlProcessDetailList_v1_t": pynvml.c_nvmlProcessDetailList_v1_t,
    "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
    "nvmlProcessUtilizationSample_t": pynvml.c_nvmlProcessUtilizationSample_t,
    "nvmlProcessUtilizationInfo_v1_t": pynvml.c_nvmlProcessUtilizationInfo_v1_t,
    "nvmlProcessesUtilizationInfo_v1_t": pynvml.c_nvmlProcessesUtilizationInfo_v1_t,
}
CONSTANTS = {
    "NVML_SUCCESS": pynvml.NVML_SUCCESS,
    "NVML_ERROR_INVALID_ARGUMENT": pynvml.NVML_ERROR_INVALID_ARGUMENT,
    "NVML_ERROR_NO_PERMISSION": pynvml.NVML_ERROR_NO_PERMISSION,
    "NVML_ERROR_NOT_FOUND": pynvml.NVML_ERROR_NOT_FOUND,
    "NVML_ERROR_INSUFFICIENT_SIZE": pynvml.NVML_ERROR_INSUFFICIENT_SIZE,
    "NVML_ERROR_FUNCTION_NOT_FOUND": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH": pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    "NVML_VERSION_1(nvmlProcessDetailList_v1_t)": pynvml.nvmlProcessDetailList_v1,
    "NVML_VERSION_1(nvmlProcessesUtilizationInfo_v1_t)": pynvml.ProcessesUtilizationInfo_v1,
}


def test_structs_are_laid_out_as_pynvmls(tmp_path: pathlib.Path) -> None:
    own, real = {}, {}
    for name, structure in STRUCTS.items():
        own[name], real[name] = f"sizeof({name})", ctypes.sizeof(structure)
        for field in (each[0] for each in structure._fields_):
            own[f"{name}.{field}"] = f"offsetof({name}, {field})"
            real[f"{name}.{field}"] = getattr(structure, field).offset
    assert printed(tmp_path, *OWN, own) == real


def test_constants_are_pynvmls(tmp_path: pathlib.Path) -> None:
    named = {f"constant{i}": expression for i, expression in enumerate(CONSTANTS)}
    values = printed(tmp_path, *OWN, named)
    assert dict(zip(CONSTANTS, values.values(), strict=True)) == CONSTANTS


def test_every_struct_with_a_layout_is_compared() -> None:
    text = (HOOK / "src" / "shared" / "nvml_abi.h").read_text()
    declared = {line.split()[1].rstrip(";") for line in text.splitlines() if line.startswith("} ")}
    # The struct of v1 has no name in pynvml: it is the begin of v2's.
    assert declared - {"nvmlProcessInfo_v1_t"} == set(STRUCTS)
