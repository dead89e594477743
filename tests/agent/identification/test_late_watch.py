"""The watch is late: pods that it shows are gone, and the pod that the kubelet means is not there.

PreStartContainer would find the mistake, and fail the pod that the kubelet meant.
"""

import time

import pytest

from tests.agent.host import CORE, KEYS, MEMORY, Host, Pod, card_of, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError


def _share(host: Host, name: str, minor: int, *, uid: str, init: bool = False) -> Pod:
    first = (container("i0", 50, 32),) if init else ()
    written = decision((minor,), cores=50, memory=32)
    pod = make_pod(name, container("c0", 50, 32), init=first, annotations=written)
    pod["metadata"]["uid"] = uid
    return host.create(pod)


def _shown(host: Host, pod: Pod) -> None:
    host.wait_until(lambda: host.agent.pods.get(pod["metadata"]["uid"]) is not None)


def _gets_its_card(host: Host, pod: Pod, minor: int) -> None:
    assert card_of(host.kubelet.admit(pod)["c0"]) == f"/dev/nvidia{minor}"
    answer = host.kubelet.start_container(pod, "c0", CORE)
    assert answer.annotations[KEYS.vcuda_pod_uid] == pod["metadata"]["uid"]


def test_a_rejected_pod_is_not_taken_for_one_that_the_watch_lacks(host: Host) -> None:
    host.start_agent()
    rejected = _share(host, "rejected", 0, uid="uid-1")
    _shown(host, rejected)
    host.kubelet.reject(rejected)  # by another plugin: the agent isn't asked
    host.api.hold_watches()
    _gets_its_card(host, _share(host, "meant", 1, uid="uid-2"), 1)


def test_a_pod_that_is_gone_is_not_taken_for_the_next_of_its_name(host: Host) -> None:
    """It was rejected, and its controller has made the next one."""
    host.start_agent()
    gone = _share(host, "web-0", 0, uid="uid-1")
    _shown(host, gone)
    host.kubelet.reject(gone)
    host.api.hold_watches()
    host.api.delete("pods", "web-0")
    host.kubelet.remove(gone)
    _gets_its_card(host, _share(host, "web-0", 1, uid="uid-2"), 1)


@pytest.mark.parametrize("restarted", ["agent", "kubelet"])
def test_an_init_container_of_a_gone_pod_does_not_count_for_the_next(
    host: Host, restarted: str
) -> None:
    """The kubelet's checkpoint has the devices of ended pods until its next allocation."""
    host.start_agent()
    last = _share(host, "web-0", 0, uid="uid-1", init=True)
    host.kubelet.admit(last)
    for name in ("i0", "c0"):
        host.kubelet.start_container(last, name, CORE)
    if restarted == "agent":
        host.stop_agent()
        host.start_agent()
    else:
        host.kubelet.restart()
        host.kubelet.wait_for_plugins(CORE, MEMORY)
    host.api.hold_watches()
    host.api.delete("pods", "web-0")
    host.kubelet.remove(last)
    _gets_its_card(host, _share(host, "web-0", 1, uid="uid-2", init=True), 1)


def test_the_devices_of_a_deleted_pod_are_not_those_of_the_next(host: Host) -> None:
    """It was deleted by force, still runs, and an agent that starts then may lack records."""
    host.start_agent()
    whole = make_pod("web-0", container("c0", 100), annotations=decision((0,), cores=100, memory=0))
    whole["metadata"]["uid"] = "uid-1"
    whole = host.create(whole)
    answer = host.kubelet.admit(whole)["c0"]
    host.kubelet.start_container(whole, "c0", CORE)
    host.cri.run("uid-1", "c0", annotations=dict(answer.annotations))
    host.api.delete("pods", "web-0")
    _share(host, "web-0", 0, uid="uid-2")  # the kubelet hasn't come to it yet
    host.stop_agent()
    host.start_agent()
    meant = _share(host, "meant", 1, uid="uid-3")
    _shown(host, meant)
    answer = host.kubelet.admit(meant, memory_first=True)["c0"]
    assert card_of(answer) == "/dev/nvidia1"


def test_a_pod_is_admitted_while_the_api_server_is_away(host: Host) -> None:
    host.start_agent()
    pod = _share(host, "p", 1, uid="uid-1")
    _shown(host, pod)
    host.api.faults.fail("GET", "/pods/p$", status=503, times=10)
    _gets_its_card(host, pod, 1)
    assert host.agent.finder.guesses == 0


def test_pods_that_were_deleted_at_once_delay_others_little(host: Host) -> None:
    """The kubelet makes one call at a time: other users' pods wait behind all of these."""
    host.start_agent()
    deleted = [host.share(f"deleted-{number}", 1) for number in range(8)]
    for pod in deleted:
        host.api.delete("pods", pod["metadata"]["name"])
    began = time.monotonic()
    for pod in deleted:
        with pytest.raises(AdmissionError, match="NoCandidate"):
            host.kubelet.admit(pod)
    assert time.monotonic() - began < 8
