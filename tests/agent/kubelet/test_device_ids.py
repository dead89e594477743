"""An ID belongs to one resource; its health is not that of the card of the pod that has it."""

from hypothesis import given
from hypothesis import strategies as st

from gpustack.adapters.nvml import CardFault
from gpustack.agent.kubelet import device_ids
from gpustack.model.node import Node
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.keys import Keys
from tests.agent.host import CORE, MEMORY, Host
from tests.fakes.nvml import card
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


def test_the_ids_of_a_pod_may_be_healthy_where_its_card_is_lost(host: Host) -> None:
    """The kubelet chooses IDs, the scheduler a card: a pod's status shows the health of IDs."""
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    host.nvml.set_faults(CardFault(uuid=card(1).uuid, reason="Lost"))
    plugins = host.kubelet.plugins
    host.kubelet.wait_for(lambda: len(plugins[CORE].healthy()) == 100)
    host.kubelet.wait_for(lambda: len(plugins[MEMORY].healthy()) == 320)
    for resource in (CORE, MEMORY):
        assert set(host.kubelet.ids(pod, "c0", resource)) <= set(plugins[resource].healthy())
