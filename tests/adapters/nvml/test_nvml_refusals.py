"""The NVML adapter where the driver refuses: no query and no card takes the others down."""

import dataclasses
import pathlib
import types
from collections.abc import Callable
from functools import partial

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.adapters.nvml import CardFault, Nvml, NvmlError
from gpustack.model.node import Node
from gpustack.model.topology.link_level import check_links
from gpustack.wire.keys import Keys
from gpustack.wire.nodes import decode_node, encode_devices
from tests.adapters.nvml.fake_driver import ANSWERS, FakeDriver, cards

NOWHERE = pathlib.Path("/nonexistent")
SWITCH = "00000000:C1:00.0"


def opened(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    driver.install(monkeypatch)
    return Nvml(sysfs=NOWHERE)


def links_of(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[str, ...], ...]:
    return opened(driver, monkeypatch).inventory().links


@pytest.mark.parametrize(
    ("level", "token"),
    [
        (pynvml.NVML_TOPOLOGY_INTERNAL, "PIX"),
        (pynvml.NVML_TOPOLOGY_SINGLE, "PIX"),
        (pynvml.NVML_TOPOLOGY_MULTIPLE, "PXB"),
        (pynvml.NVML_TOPOLOGY_HOSTBRIDGE, "PHB"),
        (pynvml.NVML_TOPOLOGY_NODE, "NODE"),
        (pynvml.NVML_TOPOLOGY_CPU, "NODE"),
        (pynvml.NVML_TOPOLOGY_SYSTEM, "SYS"),
        (60, "SYS"),  # what a later driver may add is farther
    ],
)
def test_every_level_of_nvml_has_its_token(
    monkeypatch: pytest.MonkeyPatch, level: int, token: str
) -> None:
    driver = FakeDriver(cards=cards(2), levels={(0, 1): level})
    assert links_of(driver, monkeypatch) == (("X", token), (token, "X"))


def answer(ask: Callable[[], object]) -> object:
    """What the adapter says, or the first two words of its refusal."""
    try:
        return ask()
    except NvmlError as error:
        return " ".join(str(error).split()[:2])


QUERIES = st.tuples(st.sampled_from(sorted(ANSWERS)), st.none() | st.integers(0, 3))
ERRORS = st.sampled_from(
    [
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_UNKNOWN,
        999,
    ]
)


@given(
    st.dictionaries(QUERIES, ERRORS, max_size=6),
    st.dictionaries(st.integers(0, 3), st.lists(st.sampled_from([SWITCH, "", "00000000:08:00.0"]))),
    st.lists(st.sampled_from(["GPU-0", "GPU-1", ""]), min_size=4, max_size=4),
    st.lists(st.sampled_from([0, 1, 2]), min_size=4, max_size=4),
)
def test_the_cards_that_are_left_after_any_refusal_can_be_published(
    refused: dict[tuple[str, int | None], int],
    far_ends: dict[int, list[str]],
    uuids: list[str],
    minors: list[int],
) -> None:
    made = [
        dataclasses.replace(card, uuid=uuid, minor=minor)
        for card, uuid, minor in zip(cards(4), uuids, minors, strict=True)
    ]
    driver = FakeDriver(cards=made, far_ends=far_ends, refused=refused, nvlink_peers=True)
    with pytest.MonkeyPatch.context() as patch:
        nvml = opened(driver, patch)
        try:
            found = nvml.inventory()
        except NvmlError:
            assert {("nvmlDeviceGetCount", None), ("nvmlSystemGetDriverVersion", None)} & set(
                refused
            )
            return
        for fault in nvml.faults():
            assert fault.uuid in {card.uuid for card in found.cards}
        for card in found.cards:
            assert answer(partial(nvml.processes, card.uuid)) in ((), "processes of")
        assert answer(lambda: nvml.next_fault(0)) in (None, "waiting for")
        nvml.close()
    node = Node(name="", cards=found.cards, links=found.links, paths=found.paths)
    check_links(found.links, len(found.cards))
    keys = Keys()
    published = {"metadata": {"annotations": {keys.gpu_devices: encode_devices(node)}}}
    read = decode_node(keys, published)
    assert (read.cards, read.links) == (node.cards, node.links)


def test_the_first_of_cards_with_the_same_number_or_uuid_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = cards(4)
    made[1] = dataclasses.replace(made[1], minor=0)
    made[2] = dataclasses.replace(made[2], uuid=made[0].uuid)
    found = opened(FakeDriver(cards=made), monkeypatch).inventory()
    assert [card.uuid for card in found.cards] == ["GPU-0", "GPU-3"]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_a_card_without_a_uuid_or_an_address_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = cards(3)
    made[0] = dataclasses.replace(made[0], uuid="")
    made[1] = dataclasses.replace(made[1], bus="")
    found = opened(FakeDriver(cards=made), monkeypatch).inventory()
    assert [card.minor for card in found.cards] == [2]
    assert "no UUID" in caplog.text


def test_a_driver_that_does_not_know_its_cuda_version_has_cards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = FakeDriver(cards=cards(1))
    driver.refused["nvmlSystemGetCudaDriverVersion_v2", None] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    assert opened(driver, monkeypatch).inventory().cuda == ""
    driver.refused.clear()
    assert opened(driver, monkeypatch).inventory().cuda == "11.4"


def test_a_card_that_is_cut_up_takes_no_work_until_it_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = FakeDriver(cards=cards(2), mig={"GPU-0"})
    nvml = opened(driver, monkeypatch)
    found = nvml.inventory().cards
    assert [(card.healthy, card.reason) for card in found] == [(False, "MigEnabled"), (True, "")]
    assert nvml.faults() == (CardFault(uuid="GPU-0", reason="MigEnabled"),)
    driver.mig.clear()
    assert nvml.faults() == ()


@pytest.mark.parametrize(
    ("cores", "capability", "sms"),
    [
        (2496, (3, 7), 13),  # K80
        (3584, (6, 0), 56),  # P100
        (3840, (6, 1), 30),  # P40
        (2560, (7, 5), 40),  # T4
        (6912, (8, 0), 108),  # A100
        (18176, (8, 9), 142),  # L40S
        (16896, (9, 0), 132),  # H100
    ],
)
def test_multiprocessors_are_told_from_cores(
    monkeypatch: pytest.MonkeyPatch, cores: int, capability: tuple[int, int], sms: int
) -> None:
    nvml = opened(FakeDriver(cards=cards(1)), monkeypatch)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetNumGpuCores", lambda _: cores)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", lambda _: capability)
    assert [card.sms for card in nvml.inventory().cards] == [sms]


def test_nvlinks_to_hidden_switches_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # A virtual machine with cards passed through, and the switches kept by the host.
    driver = FakeDriver(cards=cards(2), far_ends={0: ["", ""], 1: ["", ""]}, nvlink_peers=True)
    assert links_of(driver, monkeypatch) == (("X", "NV2"), ("NV2", "X"))
    driver.nvlink_peers = False
    assert links_of(driver, monkeypatch) == (("X", "SYS"), ("SYS", "X"))


def test_nvlinks_from_card_to_card_are_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cards(3)
    ends = {0: [made[1].bus] * 2 + [made[2].bus], 1: [made[0].bus] * 2, 2: [made[0].bus]}
    driver = FakeDriver(cards=made, far_ends=ends, levels={(1, 2): 20})
    found = opened(driver, monkeypatch).inventory()
    assert found.links == (("X", "NV2", "NV1"), ("NV2", "X", "PXB"), ("NV1", "PXB", "X"))
    assert found.paths == (("X", "SYS", "SYS"), ("SYS", "X", "PXB"), ("SYS", "PXB", "X"))


@pytest.mark.parametrize("why", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_UNKNOWN])
def test_a_card_without_events_leaves_the_others_theirs(
    why: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver(cards=cards(2))
    driver.refused["nvmlDeviceRegisterEvents", 0] = why
    nvml = opened(driver, monkeypatch)
    nvml.inventory()
    assert nvml.next_fault(0) is None
    assert driver.events == [{"GPU-1"}]


def test_a_driver_that_gives_no_card_events_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(cards=cards(2))
    driver.refused["nvmlDeviceRegisterEvents", None] = pynvml.NVML_ERROR_UNKNOWN
    nvml = opened(driver, monkeypatch)
    nvml.inventory()
    with pytest.raises(NvmlError, match="waiting for events"):
        nvml.next_fault(0)
    driver.refused.clear()
    assert nvml.next_fault(0) is None
    assert driver.events == [{"GPU-0", "GPU-1"}]


def test_events_that_can_not_be_given_back_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = pynvml.NVML_ERROR_GPU_IS_LOST
    driver = FakeDriver(cards=cards(1))
    nvml = opened(driver, monkeypatch)
    nvml.inventory()
    assert nvml.next_fault(0) is None
    driver.refused.update({("nvmlEventSetWait_v2", None): lost, ("nvmlEventSetFree", None): lost})
    with pytest.raises(NvmlError, match="waiting for events"):
        nvml.next_fault(0)
    driver.refused.clear()
    assert nvml.next_fault(0) is None
    assert len(driver.events) == 2


def test_a_driver_before_510_tells_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = opened(FakeDriver(cards=cards(1)), monkeypatch)
    nvml.inventory()

    def newer(_: object) -> None:
        raise pynvml.NVMLLibraryMismatchError

    def older(_: object) -> list[types.SimpleNamespace]:
        return [types.SimpleNamespace(pid=7, usedGpuMemory=None)]

    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", newer)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses_v2", older)
    (found,) = nvml.processes("GPU-0")
    assert (found.pid, found.memory_bytes) == (7, 0)
