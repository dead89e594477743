"""The CDI spec: its names lead to the same nodes as a plain answer of Allocate."""

import os
import pathlib
import stat
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack.agent.cdi import spec
from gpustack.agent.cdi.spec_file import SpecFile
from gpustack.agent.node.device_nodes import DeviceNodes, card_path
from gpustack.model.placement import ContainerPlacement
from gpustack.model.request import ContainerKind
from gpustack.model.units import CORES_PER_CARD
from tests.fakes import cdi
from tests.fakes.nvml import card

_MODES = st.sampled_from([0o666, 0o660, 0o644, 0o444, 0o400, 0o600])
_OPTIONAL = ["nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps/nvidia-cap1"]
_EXTRA = ["infiniband/uverbs0", "infiniband/rdma_cm", "infiniband/old/issm0", "fuse"]
_LINKS = {"scanner": "fuse", "roce": "infiniband"}
_PATHS = ["infiniband", "infiniband/uverbs0", "fuse", *_LINKS]


@st.composite
def hosts(draw: st.DrawFn) -> tuple[dict[str, tuple[int, int]], list[str], list[int]]:
    """Return a host's nodes with mode and owner, the operator's paths, and a container's cards."""
    minors = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
    names = [f"nvidia{minor}" for minor in minors] + ["nvidiactl", "nvidia-uvm", *_EXTRA]
    names += draw(st.lists(st.sampled_from(_OPTIONAL), unique=True))
    nodes = {name: (draw(_MODES), draw(st.integers(0, 2))) for name in names}
    extra = draw(st.lists(st.sampled_from(_PATHS), unique=True))
    chosen = draw(st.lists(st.sampled_from(minors), min_size=1, unique=True))
    return nodes, [f"/dev/{each}" for each in extra], chosen


@settings(max_examples=60, deadline=None)
@given(hosts(), st.booleans(), st.sampled_from([0, 1000]))
def test_the_names_lead_to_every_node_of_a_plain_answer_and_no_other(
    host: tuple[dict[str, tuple[int, int]], list[str], list[int]], is_share: bool, user: int
) -> None:
    nodes, extra, minors = host
    chosen = minors[:1] if is_share else minors
    with tempfile.TemporaryDirectory() as root:
        devices, folder = pathlib.Path(root, "dev"), pathlib.Path(root, "cdi")
        _make(devices, nodes)
        found = DeviceNodes(devices, extra)
        SpecFile(folder).keep(_encode(found, nodes))
        paths = [*map(card_path, chosen), *found.besides(is_share=is_share)]
        names = spec.names("tencent.com", _placement(chosen, is_share=is_share))
        by_names = cdi.injected([folder], names, devices, user=user)
        assert by_names == cdi.plain(paths, devices)


def test_a_node_that_is_not_there_fails_its_container_alone(tmp_path: pathlib.Path) -> None:
    devices = tmp_path / "dev"
    nodes = {name: (0o666, 0) for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")}
    _make(devices, nodes)
    (devices / "nvidia0").unlink()
    SpecFile(tmp_path).keep(_encode(DeviceNodes(devices), nodes))
    whole = [spec.names("tencent.com", _placement([minor], is_share=False)) for minor in (0, 1)]
    assert len(cdi.injected([tmp_path], whole[1], devices)) == 3
    with pytest.raises(cdi.InjectionError, match="/dev/nvidia0"):
        cdi.injected([tmp_path], whole[0], devices)


def test_the_spec_names_no_numbers_that_a_loaded_driver_may_change(tmp_path: pathlib.Path) -> None:
    _make(tmp_path / "dev", {"nvidia0": (0o666, 0), "nvidiactl": (0o666, 0)})
    content = _encode(DeviceNodes(tmp_path / "dev"), {"nvidia0": (0o666, 0)})
    assert b'"major"' not in content
    assert b'"minor"' not in content


def _make(devices: pathlib.Path, nodes: dict[str, tuple[int, int]]) -> None:
    for number, (name, (mode, owner)) in enumerate(nodes.items()):
        place = devices / name
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(place, stat.S_IFCHR, os.makedev(195, number))
        place.chmod(mode)
        os.chown(place, owner, owner)
    for link, target in _LINKS.items():
        (devices / link).symlink_to(target)


def _encode(found: DeviceNodes, nodes: dict[str, tuple[int, int]]) -> bytes:
    minors = [int(name[6:]) for name in nodes if name[6:].isdigit()]
    return spec.encode(
        "tencent.com",
        {card(minor).uuid: found.at(card_path(minor)) for minor in minors},
        share=[node for path in found.besides(is_share=True) for node in found.at(path)],
        whole_cards=[node for path in found.besides(is_share=False) for node in found.at(path)],
    )


def _placement(minors: list[int], *, is_share: bool) -> ContainerPlacement:
    return ContainerPlacement(
        name="c",
        kind=ContainerKind.APP,
        index=0,
        minors=tuple(minors),
        uuids=tuple(card(minor).uuid for minor in minors),
        cores=50 if is_share else CORES_PER_CARD * len(minors),
        memory_units=32,
    )
