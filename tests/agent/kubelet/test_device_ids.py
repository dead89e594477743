"""An ID belongs to one resource, and the lowest are preferred.

Their health: tests/agent/kubelet/test_device_health.py.
"""

import random

from hypothesis import given
from hypothesis import strategies as st

from gpustack.agent.kubelet import device_ids
from gpustack.model.node import Node
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.keys import Keys
from tests.model import machines


@given(
    units=st.lists(st.integers(0, 1152), min_size=1, max_size=16),  # 1152: 288 GiB
    domain=st.sampled_from(["tencent.com", "gpu.example.org", "vcuda-core", "a.vcuda-memory"]),
)
def test_no_id_is_advertised_under_both_resources(units: list[int], domain: str) -> None:
    keys = Keys(domain)
    cards = tuple(machines.card(minor, each) for minor, each in enumerate(units))
    node = Node(name="gpu1", cards=cards, links=())
    cores = {each.id for each in device_ids.core_ids(keys, node)}
    memory = {each.id for each in device_ids.memory_ids(keys, node)}
    assert not cores & memory
    assert (len(cores), len(memory)) == (100 * len(units), sum(units))
    assert all(each.startswith(f"{keys.vcuda_core}-") for each in cores)
    assert all(each.startswith(f"{keys.vcuda_memory}-{MEMORY_UNIT_BYTES}-") for each in memory)


@given(
    offered=st.sets(st.integers(0, 12_287), max_size=300),
    required=st.lists(st.integers(0, 12_287), max_size=5, unique=True),
    size=st.integers(-1, 310),
    order=st.randoms(use_true_random=False),
)
def test_required_ids_are_preferred_and_then_the_lowest_numbers(
    offered: set[int], required: list[int], size: int, order: random.Random
) -> None:
    prefix = f"{Keys('tencent.com').vcuda_memory}-{MEMORY_UNIT_BYTES}-"
    available = [f"{prefix}{number}" for number in sorted(offered.union(required))]
    order.shuffle(available)
    must = [f"{prefix}{number}" for number in required]
    preferred = device_ids.prefer_lowest(available, must, size)
    lowest = [f"{prefix}{number}" for number in sorted(offered.difference(required))]
    assert preferred == tuple(must + lowest)[: max(size, 0)]
