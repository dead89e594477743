"""The original's volume.conf and extra-config.json, read as it reads them, with errors by path."""

import json
import os
import pathlib
from typing import Any

import pytest

from gpustack.wire.config import ConfigError
from gpustack.wire.files.original_config import extra_devices, volume_names

# As tkestack/gpu-manager ships it (build/volume.conf), a part of each list.
SHIPPED: dict[str, Any] = {
    "volume": [
        {
            "name": "nvidia",
            "base": "/etc/gpu-manager/vdriver",
            "mode": "ro",
            "components": {
                "binaries": ["nvidia-smi", "gpu-client"],
                "libraries": ["libcuda.so", "libcuda-control.so", "libnvidia-ml.so", "libGL.so"],
            },
        },
        {
            "name": "origin",
            "base": "/etc/gpu-manager/vdriver",
            "mode": "ro",
            "components": {
                "binaries": ["nvidia-smi", "nvidia-debugdump"],
                "libraries": ["libcuda.so", "libvdpau_nvidia.so"],
            },
        },
    ]
}


def _file(folder: pathlib.Path, value: object) -> pathlib.Path:
    file = folder / "file.conf"
    file.write_text(value if isinstance(value, str) else json.dumps(value, indent="\t"))
    return file


def test_the_shipped_volumes_are_one(tmp_path: pathlib.Path) -> None:
    found = volume_names(_file(tmp_path, SHIPPED))
    assert found.libraries == ("libcuda.so", "libnvidia-ml.so", "libvdpau_nvidia.so")
    assert found.binaries == ("nvidia-smi", "nvidia-debugdump")


def _with(**component: object) -> dict[str, Any]:
    return {"volume": [{"name": "nvidia", "components": component}]}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("{", "can't be read: "),
        ('{"volume": [], "volume": []}', "volume stands twice"),
        ("[" * 100_000, "can't be read: "),
        ({}, "the document: volume is missing"),
        ({"volume": "all"}, "volume: 'all' is not of type array"),
        ({"volume": [{"name": "x"}]}, "volume[0]: components is missing"),
        (_with(library=[]), "volume[0].components: library is not known here"),
        (_with(libraries=["../libcuda.so"]), "volume[0].components.libraries[0]: "),
        (_with(libraries=["lib"]), "volume[0].components.libraries[0]: "),
        (_with(libraries=["libx.so"] * 257), "volume[0].components.libraries: has 257 members"),
        (_with(binaries=["/bin/sh"]), "volume[0].components.binaries[0]: "),
        (_with(binaries=[7]), "volume[0].components.binaries[0]: 7 is not of type string"),
    ],
)
def test_a_bad_volume_conf_is_refused_by_path(
    tmp_path: pathlib.Path, value: object, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        volume_names(_file(tmp_path, value))
    assert f"{tmp_path}/file.conf: " in str(caught.value)
    assert any(problem in each for each in caught.value.problems)


def test_the_devices_of_the_default_are_read(tmp_path: pathlib.Path) -> None:
    value = {"default": {"devices": ["/dev/infiniband/uverbs0"]}, "other": {"devices": ["/dev/x"]}}
    assert extra_devices(_file(tmp_path, value)) == ("/dev/infiniband/uverbs0",)


def test_the_shipped_extra_config_has_no_device(tmp_path: pathlib.Path) -> None:
    assert extra_devices(_file(tmp_path, {})) == ()


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/dev/../etc/shadow", "/dev", "/dev/", "/dev//sda", "dev/sda", 7]
)
def test_a_device_elsewhere_is_refused_by_path(tmp_path: pathlib.Path, path: object) -> None:
    with pytest.raises(ConfigError, match=r"default\.devices\[0\]: "):
        extra_devices(_file(tmp_path, {"default": {"devices": [path]}}))


def test_a_file_that_is_none_ends_in_an_error(tmp_path: pathlib.Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    large = tmp_path / "large"
    large.write_bytes(b" " * (2 << 20))
    for path in (fifo, large, tmp_path / "missing", tmp_path):
        with pytest.raises(ConfigError, match="can't be read"):
            volume_names(path)
