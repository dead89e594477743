"""The health of a device ID is that of the card of the container that has it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.adapters.nvml import CardFault
from gpustack.agent.containers.allocation_records import ContainerRecord, PodRecord, Source
from gpustack.agent.kubelet import device_ids
from gpustack.model.node import Node
from gpustack.model.placement import ContainerPlacement
from tests.agent.host import CORE, KEYS, MEMORY, Host, Pod, container, decision, make_pod
from tests.fakes.kubelet import UnhealthyDevices
from tests.fakes.nvml import card
from tests.model import machines

_LOST = CardFault(uuid=card(1).uuid, reason="Lost")


def _lose(host: Host, *faults: CardFault) -> None:
    host.nvml.set_faults(*faults)
    left = 200 - 100 * len(faults)
    plugins = host.kubelet.plugins
    host.kubelet.wait_for(lambda: len(plugins[CORE].healthy()) == left)
    host.kubelet.wait_for(lambda: len(plugins[MEMORY].healthy()) == left * 320 // 100)


def _unhealthy(host: Host, pod: Pod, name: str = "c0") -> tuple[int, int]:
    """Return how many of a container's core and memory IDs the kubelet takes for unhealthy."""
    counts = []
    for resource in (CORE, MEMORY):
        ids = host.kubelet.known[pod["metadata"]["uid"]].devices[name].get(resource, ())
        counts.append(len(set(ids) - set(host.kubelet.plugins[resource].healthy())))
    return counts[0], counts[1]


def test_only_the_containers_of_a_lost_card_have_unhealthy_devices(host: Host) -> None:
    host.start_agent()
    on_lost, on_other = host.share("lost", 1), host.share("other", 0, now_ns=2)
    for pod in (on_lost, on_other):  # the lowest IDs, those of the other card, go to the first
        host.kubelet.admit(pod)
    _lose(host, _LOST)
    assert _unhealthy(host, on_lost) == (50, 32)
    assert _unhealthy(host, on_other) == (0, 0)
    _lose(host)
    assert _unhealthy(host, on_lost) == (0, 0)


def test_a_restarted_kubelet_fails_the_pods_of_the_lost_card_only(host: Host) -> None:
    host.start_agent()
    on_lost, on_other = host.share("lost", 1), host.share("other", 0, now_ns=2)
    for pod in (on_lost, on_other):
        host.kubelet.admit(pod)
    _lose(host, _LOST)
    host.kubelet.restart()
    host.kubelet.wait_for_plugins(CORE, MEMORY)
    host.kubelet.admit(on_other)
    with pytest.raises(UnhealthyDevices):
        host.kubelet.admit(on_lost)


def test_a_restarted_kubelet_fails_no_pod_beside_a_card_that_is_left_out(host: Host) -> None:
    host.start_agent()
    host.kubelet.admit(host.whole_card("left-out", 1))
    other = host.share("other", 0, now_ns=2)
    host.kubelet.admit(other)  # its IDs are beyond those of one card
    host.stop_agent()
    host.nvml.show(card(0))
    host.kubelet.restart()
    host.start_agent()
    host.kubelet.admit(other)
    assert len(host.kubelet.plugins[CORE].healthy()) == 100


def test_half_of_a_containers_devices_stand_for_one_of_its_two_cards(host: Host) -> None:
    host.start_agent()
    written = decision((0, 1), cores=200, memory=0)
    pod = host.create(make_pod("both", container("c0", 200), annotations=written))
    host.kubelet.admit(pod)
    _lose(host, _LOST)
    assert _unhealthy(host, pod) == (100, 0)


def test_a_pod_admitted_after_the_loss_has_healthy_devices(host: Host) -> None:
    host.start_agent()
    _lose(host, _LOST)
    pod = host.share("p", 0)
    host.kubelet.admit(pod)
    assert _unhealthy(host, pod) == (0, 0)
    assert len(host.kubelet.plugins[CORE].healthy()) == 100


def test_the_devices_of_an_ended_pod_are_free_and_its_lost_card_counts_on(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    _lose(host, _LOST)
    lists = len(host.kubelet.plugins[CORE].lists)
    host.end(pod)
    host.wait_until(lambda: host.agent.records.get(pod["metadata"]["uid"]) is None)
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].lists) > lists)
    assert len(host.kubelet.plugins[CORE].healthy()) == 100


def test_an_init_containers_devices_follow_the_container_that_reuses_them(host: Host) -> None:
    host.start_agent()
    written = decision((0,), cores=50, memory=32)
    written[KEYS.idx_prefix + "init-0"] = "1"
    written[KEYS.uuid_prefix + "init-0"] = card(1).uuid
    init = (container("i0", 50, 32),)
    pod = host.create(make_pod("p", container("c0", 50, 32), init=init, annotations=written))
    host.kubelet.admit(pod)
    assert host.kubelet.ids(pod, "i0", CORE) == host.kubelet.ids(pod, "c0", CORE)
    _lose(host, _LOST)
    assert _unhealthy(host, pod) == (0, 0)


@given(draw=st.randoms(use_true_random=False))
def test_as_many_devices_are_unhealthy_as_the_lost_cards_have(draw: random.Random) -> None:
    """Shares of random cards have random IDs."""
    count = draw.randint(1, 4)
    cards = tuple(
        machines.card(minor, draw.randint(0, 40), healthy=draw.random() < 0.5)
        for minor in range(count)
    )
    node = Node(name="gpu1", cards=cards, links=())
    cores = [f"{CORE}-{number}" for number in range(100 * count)]
    draw.shuffle(cores)
    records, tenants = [], {minor: set[str]() for minor in range(count)}
    for minor in range(count):
        for index in range(draw.randint(0, 3)):
            own = tuple(cores.pop() for _ in range(draw.randint(1, 33)))
            tenants[minor].update(own)
            records.append(_record(f"{minor}-{index}", minor, own))
    found = device_ids.core_ids(KEYS, node, records)
    unhealthy = {each.id for each in found if not each.healthy}
    lost = [each.minor for each in cards if not each.healthy]
    assert len(unhealthy) == 100 * len(lost)
    for minor, having in tenants.items():
        assert having & unhealthy == (having if minor in lost else set())
    units = device_ids.memory_ids(KEYS, node, records)
    assert sum(not each.healthy for each in units) == sum(
        each.memory_units for each in cards if not each.healthy
    )


def _record(uid: str, minor: int, ids: tuple[str, ...]) -> PodRecord:
    placement = ContainerPlacement(
        name="c0", index=0, minors=(minor,), uuids=(f"GPU-{minor}",), cores=len(ids), memory_units=1
    )
    return PodRecord(
        uid=uid,
        namespace="default",
        name=uid,
        node="gpu1",
        decided_ns=1,
        source=Source.EXTENDER,
        containers=(ContainerRecord(placement=placement, core_ids=ids),),
    )
