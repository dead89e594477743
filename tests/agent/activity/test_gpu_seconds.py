"""GPU-seconds of tenants and idle ones add up to the time of all cards."""

import pathlib
from dataclasses import dataclass
from typing import cast

import pytest

from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.adapters.web.exposition import MOST_NAMESPACES, OTHERS, row
from gpustack.agent.activity.gpu_seconds import GpuSeconds
from gpustack.agent.containers.allocation_records import (
    AllocationRecords,
    ContainerRecord,
    PodRecord,
    Source,
)
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.node import Node
from gpustack.model.placement import ContainerPlacement
from tests.model import machines

NODE = Node(
    name="gpu1",
    cards=tuple(
        machines.card(at, 320, uuid=f"GPU-{at}", model="NVIDIA A100 80GB") for at in range(2)
    ),
    links=machines.grouped(2),
)


@dataclass
class Stand:
    """Two cards, the records of who has them, and a clock."""

    folder: pathlib.Path
    now: float = 1000.0
    node: Node = NODE

    def __post_init__(self) -> None:
        self.records = AllocationRecords(CheckpointFile(self.folder / "checkpoint.json"))
        self.seconds = GpuSeconds(self.records, cast(CardInventory, self), lambda: self.now)

    def start(self, name: str, namespace: str, cores: int, *minors: int) -> None:
        placement = ContainerPlacement(
            name=name,
            index=0,
            minors=minors,
            uuids=tuple(f"GPU-{minor}" for minor in minors),
            cores=cores,
            memory_units=1,
        )
        self.records.put(
            PodRecord(
                uid=name,
                namespace=namespace,
                name=name,
                node="gpu1",
                decided_ns=1,
                source=Source.EXTENDER,
                containers=(ContainerRecord(placement=placement),),
            )
        )


@pytest.fixture
def stand(tmp_path: pathlib.Path) -> Stand:
    return Stand(tmp_path)


def test_time_counts_for_the_namespace_that_holds_the_cards(stand: Stand) -> None:
    stand.now += 10  # nobody holds anything
    stand.start("p", "a", 50, 0)
    stand.now += 4
    stand.start("q", "b", 100, 1)
    stand.now += 6
    stand.records.remove("p")
    stand.now += 5
    stand.seconds.look()
    assert stand.seconds.held == {"a": {"NVIDIA-A100-80GB": 5}, "b": {"NVIDIA-A100-80GB": 11}}
    assert stand.seconds.idle == {"GPU-0": 20, "GPU-1": 14}
    held = sum(sum(models.values()) for models in stand.seconds.held.values())
    assert held + sum(stand.seconds.idle.values()) == 2 * 25


def test_a_pod_between_two_scrapes_is_counted(stand: Stand) -> None:
    stand.seconds.look()
    stand.start("short", "a", 100, 0, 1)
    stand.now += 3
    stand.records.remove("short")
    stand.now += 7
    stand.seconds.look()
    assert stand.seconds.held == {"a": {"NVIDIA-A100-80GB": 6}}


def test_further_namespaces_share_one_row() -> None:
    known = {f"n{at}": 0.0 for at in range(MOST_NAMESPACES)}
    assert row(known, "n5") == "n5"
    assert row(known, "new") == OTHERS
    assert row({}, "new") == "new"
