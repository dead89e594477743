"""An answer to Allocate names its pod; a container starts with an answer for its own pod only."""

import pytest

from tests.agent.host import CORE, KEYS, Host, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError


def test_whole_cards_carry_the_uid_of_their_pod(host: Host) -> None:
    host.start_agent()
    pod = host.whole_card("p", 1)
    host.kubelet.admit(pod)
    answer = host.kubelet.start_container(pod, "c0", CORE)
    assert answer.annotations[KEYS.vcuda_pod_uid] == pod["metadata"]["uid"]


@pytest.mark.parametrize("whole", [True, False])
def test_an_answer_for_another_pod_does_not_start_on_the_same_card(host: Host, whole: bool) -> None:
    """The next pod of a StatefulSet has the name, the card and the limits of the one before."""
    host.start_agent()
    pod = host.whole_card("p", 1) if whole else host.share("p", 1)
    answer = host.kubelet.admit(pod)["c0"]
    answer.annotations[KEYS.vcuda_pod_uid] = "uid-of-the-pod-before"
    host.kubelet.write_checkpoint(pod)
    with pytest.raises(AdmissionError, match=r"PairingMismatch: .*default/p: the pod is failed"):
        host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: host.is_failed(pod))
    assert host.agent.refusals.mismatches == 1


def test_an_answer_of_an_earlier_agent_starts(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    answer = host.kubelet.admit(pod)["c0"]
    del answer.annotations[KEYS.vcuda_pod_uid]
    host.kubelet.write_checkpoint(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    assert not host.is_failed(pod)


def test_every_container_of_a_pod_carries_its_uid(host: Host) -> None:
    host.start_agent()
    written = decision((0,), (1,), cores=50, memory=32)
    init = (container("i0", 50, 32),)
    containers = (container("c0", 50, 32), container("c1", 50, 32))
    pod = host.create(make_pod("p", *containers, init=init, annotations=written))
    answers = host.kubelet.admit(pod)
    assert {each.annotations[KEYS.vcuda_pod_uid] for each in answers.values()} == {
        pod["metadata"]["uid"]
    }


def test_a_checkpoint_larger_than_the_bound_is_not_read(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    file = host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint"
    with file.open("r+b") as opened:
        opened.truncate(17 * 1024 * 1024)
    host.kubelet.start_container(pod, "c0", CORE)  # PodResources proves it
    assert not host.is_failed(pod)
