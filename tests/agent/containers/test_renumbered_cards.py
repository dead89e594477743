"""The host has numbered its cards anew since a record was made: the UUID decides."""

import dataclasses
import urllib.request

import pytest

from tests.agent.host import CORE, KEYS, Host, Pod, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import card


def _boot_with_swapped_cards(host: Host) -> None:
    host.stop_agent()
    host.nvml.show(dataclasses.replace(card(1), minor=0), dataclasses.replace(card(0), minor=1))
    host.start_agent()


def _two_containers(host: Host) -> Pod:
    asked = (container("c0", 50, 32), container("c1", 50, 32))
    return host.create(make_pod("p", *asked, annotations=decision((0,), (0,), cores=50, memory=32)))


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_container_does_not_start_on_another_card(host: Host, checkpoint: bool) -> None:
    host.start_agent()
    pod = host.whole_card("p", 1)
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    _boot_with_swapped_cards(host)
    if not checkpoint:
        (host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    with pytest.raises(AdmissionError, match=r"CardRenumbered: card 1 .*that one is card 0 now"):
        host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: host.is_failed(pod))
    assert host.agent.refusals.mismatches == 0


def test_a_card_that_is_gone_hides_no_other_card_behind_a_minor(host: Host) -> None:
    host.start_agent()
    written = decision((0, 1), cores=200, memory=0)
    pod = host.create(make_pod("p", container("c0", 200), annotations=written))
    host.kubelet.admit(pod)
    host.stop_agent()
    host.nvml.show(dataclasses.replace(card(3), minor=1), card(2))  # card 0 is gone, 1 replaced
    host.start_agent()
    with pytest.raises(AdmissionError, match="CardRenumbered: card 1 "):
        host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: host.is_failed(pod))


def test_a_second_container_gets_no_other_card_than_the_first(host: Host) -> None:
    host.start_agent()
    pod = _two_containers(host)
    host.kubelet.allocate(pod, pod["spec"]["containers"][0])
    _boot_with_swapped_cards(host)
    with pytest.raises(AdmissionError, match="CardRenumbered"):
        host.kubelet.allocate(pod, pod["spec"]["containers"][1])


def test_a_pod_on_a_card_that_kept_its_minor_starts(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    host.stop_agent()
    host.nvml.show(card(1))
    host.start_agent()
    host.kubelet.start_container(pod, "c0", CORE)


def test_figures_name_the_present_minor_of_a_card(host: Host) -> None:
    host.nvml.energy[card(1).uuid] = 1.0
    host.start_agent()
    host.kubelet.admit(host.share("p", 1))
    _boot_with_swapped_cards(host)
    host.wait_until(lambda: bool(host.agent.activity.energy.sums.idle))
    with urllib.request.urlopen(f"http://127.0.0.1:{host.agent.web.ports[0]}/metrics") as answer:
        text = answer.read().decode()
    for figure in ("gpustack_container_cores_", "gpustack_container_energy_"):
        found = [each for each in text.splitlines() if each.startswith(figure)]
        assert found, text
        assert all('minor="0"' in each and card(1).uuid in each for each in found)


def test_a_running_container_is_restored_with_the_uuid_of_its_decision(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    host.cri.run(pod["metadata"]["uid"], "c0", annotations={KEYS.vcuda_device: "/dev/nvidia1"})
    host.stop_agent()
    (host.state / "checkpoint.json").unlink()
    host.nvml.show(dataclasses.replace(card(1), minor=0), dataclasses.replace(card(0), minor=1))
    host.start_agent()
    host.wait_until(lambda: bool(host.agent.records.all()))
    (record,) = host.agent.records.all()
    assert record.containers[0].placement.uuids == (card(1).uuid,)
