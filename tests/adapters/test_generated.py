"""The generated gRPC messages are what our .proto files say, under the official names."""

import pathlib

from gpustack.adapters.cri import cri_pb2
from gpustack.adapters.deviceplugin import deviceplugin_pb2
from gpustack.adapters.podresources import podresources_pb2
from tests.adapters import regenerate


def test_regenerating_changes_nothing(tmp_path: pathlib.Path) -> None:
    for generated in regenerate.generate(tmp_path):
        committed = regenerate.ROOT / generated.relative_to(tmp_path)
        assert committed.read_text() == generated.read_text(), f"{committed}: run make proto"


def test_packages_are_the_ones_on_the_wire() -> None:
    packages = [
        module.DESCRIPTOR.package for module in (cri_pb2, deviceplugin_pb2, podresources_pb2)
    ]
    assert packages == ["runtime.v1", "v1beta1", "v1"]
