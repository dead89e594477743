"""What a card drew is divided among its containers, and nothing is lost or made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.agent.activity.energy import EnergyAccounts
from gpustack.agent.activity.nvml_usage import ContainerSample
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
)
from gpustack.model.placement import ContainerPlacement
from tests.agent.activity.activity import CARD, Stage
from tests.fakes.nvml import FakeNvml, card

_NEIGHBOUR = card(2)
_TENANTS = ("a", "b", "c")
# Each look: joules since the one before, microseconds of the driver's windows, GPU time by tenant.
_LOOKS = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.sampled_from((0, 1)),
        st.lists(st.integers(0, 1000), min_size=len(_TENANTS), max_size=len(_TENANTS)),
    ),
    max_size=20,
)


def _record(name: str, *, cores: int) -> PodRecord:
    placement = ContainerPlacement(
        name=name, index=0, minors=(1,), uuids=(CARD.uuid,), cores=cores, memory_units=0
    )
    return PodRecord(
        uid=f"uid-{name}",
        namespace="team",
        name=name,
        node="gpu1",
        decided_ns=1,
        source=Source.EXTENDER,
        containers=(ContainerRecord(placement=placement),),
    )


class _Meter:
    """Two cards whose counters a test turns on, and the accounts of their energy."""

    def __init__(self, stage: Stage) -> None:
        self._nvml = stage.nvml
        self._look = stage.sampler.look
        self.accounts = stage.sampler.energy
        self.turn(0, 0)
        self._look()

    def turn(self, joules: float, neighbour: float) -> None:
        energy = self._nvml.energy
        for uuid, drawn in ((CARD.uuid, joules), (_NEIGHBOUR.uuid, neighbour)):
            energy[uuid] = energy.get(uuid, 0.0) + drawn

    def draw(self, joules: float, neighbour: float = 0.0) -> None:
        self.turn(joules, neighbour)
        self._look()

    def of(self, name: str) -> float | None:
        return self.accounts.sums.of((f"uid-{name}", name), CARD.uuid)


def test_energy_is_divided_by_gpu_time_and_the_rest_is_idle(stage: Stage) -> None:
    pids = {name: stage.process(stage.share(name), memory_bytes=0) for name in _TENANTS}
    meter = _Meter(stage)
    stage.nvml.busy_ns.update({pids["a"]: 300, pids["b"]: 100})
    meter.draw(400, neighbour=7)
    meter.draw(60, neighbour=7)
    assert [meter.of(name) for name in _TENANTS] == [300, 100, 0]
    assert meter.accounts.sums.idle == {CARD.uuid: 60, _NEIGHBOUR.uuid: 14}


def test_energy_of_the_hosts_own_processes_is_nobodys(stage: Stage) -> None:
    tenant = stage.process(stage.share("a"), memory_bytes=0)
    foreign = stage.process("not-a-container", memory_bytes=0, maps=())
    meter = _Meter(stage)
    stage.nvml.busy_ns[foreign] = 500
    meter.draw(50)
    stage.nvml.busy_ns.update({foreign: 500, tenant: 500})
    meter.draw(50)
    assert meter.of("a") == 50, "it alone of the containers ran"
    assert meter.accounts.sums.idle[CARD.uuid] == 50


def test_energy_waits_for_the_end_of_the_drivers_window(stage: Stage) -> None:
    pid = stage.process(stage.share("a"), memory_bytes=0)
    meter = _Meter(stage)
    stage.nvml.span_us = 0
    meter.draw(30)
    assert (meter.of("a"), meter.accounts.sums.idle[CARD.uuid]) == (0, 0)
    stage.nvml.span_us = 1
    stage.nvml.busy_ns[pid] = 100
    meter.draw(20)
    assert (meter.of("a"), meter.accounts.sums.idle[CARD.uuid]) == (50, 0)


def test_a_driver_that_was_loaded_again_counts_from_zero(stage: Stage) -> None:
    meter = _Meter(stage)
    meter.draw(100)
    meter.draw(-90)
    meter.draw(5)
    assert meter.accounts.sums.idle[CARD.uuid] == 105


def test_a_card_that_counts_no_energy_has_no_account(stage: Stage) -> None:
    stage.process(stage.share("a"), memory_bytes=0)
    stage.sampler.look()
    assert stage.sampler.energy.sums.of(("uid-a", "a"), CARD.uuid) is None
    assert not stage.sampler.energy.sums.idle


def test_a_library_that_is_shut_stops_no_look(stage: Stage) -> None:
    meter = _Meter(stage)
    meter.draw(10)
    stage.nvml.replace_driver("570.86", agrees=False)
    meter.draw(10)
    assert meter.accounts.sums.idle[CARD.uuid] == 10
    stage.nvml.replace_driver("570.86", agrees=True)
    meter.draw(0)
    assert meter.accounts.sums.idle[CARD.uuid] == 20


def test_all_energy_of_a_whole_card_is_its_containers(stage: Stage) -> None:
    stage.records.put(_record("a", cores=100))
    meter = _Meter(stage)
    meter.draw(250, neighbour=9)
    assert meter.of("a") == 250
    stage.records.remove("uid-a")
    meter.draw(50)
    assert meter.of("a") == 0, "an account ends with its container"
    assert meter.accounts.sums.idle == {CARD.uuid: 50, _NEIGHBOUR.uuid: 9}


@given(looks=_LOOKS)
def test_the_parts_of_tenants_and_idle_add_up_to_the_counter(
    tmp_path_factory: pytest.TempPathFactory, looks: list[tuple[int, int, list[int]]]
) -> None:
    records = AllocationRecords(CheckpointFile(tmp_path_factory.mktemp("records") / "c.json"))
    for name in _TENANTS:
        records.put(_record(name, cores=30))
    nvml = FakeNvml(CARD)
    accounts = EnergyAccounts(nvml, records)
    counter = 1000.0  # from before the agent's start
    last = (0, 1, [0] * len(_TENANTS))
    for drawn, span, times in ((0, 1, last[2]), *looks, last):
        counter += drawn
        nvml.energy[CARD.uuid] = counter
        samples = {
            (f"uid-{name}", name): ContainerSample(busy_ns=span * busy, span_ns=span)
            for name, busy in zip(_TENANTS, times, strict=True)
        }
        accounts.look({CARD.uuid: samples})
        sums = accounts.sums
        parts = [sums.of((f"uid-{name}", name), CARD.uuid) or 0.0 for name in _TENANTS]
        assert min(parts) >= 0
        divided = sums.counters[CARD.uuid] - 1000
        assert sum(parts) + sums.idle[CARD.uuid] == pytest.approx(divided)
        assert sums.namespaces.get("team", 0.0) == pytest.approx(sum(parts))
    assert sums.counters == {CARD.uuid: counter}
