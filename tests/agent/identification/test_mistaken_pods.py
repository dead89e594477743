"""A container that holds an answer made for another pod doesn't start, and its pod is failed.

The kubelet's Allocate names no pod, so an answer may go to the wrong one; the agent finds that out
before a container starts.
"""

import pytest

from gpustack.wire.pods import finished
from tests.agent.host import CORE, KEYS, Host, Pod, card_of, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError


def _mistaken(host: Host) -> tuple[Pod, Pod]:
    """Two pods; the first got the answer for the second."""
    first, second = host.share("first", 0), host.share("second", 1)
    for pod in (first, second):
        host.kubelet.admit(pod)
    host.kubelet.swap(first, second)
    host.kubelet.forget(second)
    host.kubelet.know(second)
    return first, second


def test_only_the_pod_that_holds_an_answer_for_another_is_failed(host: Host) -> None:
    host.start_agent()
    first, second = _mistaken(host)
    with pytest.raises(AdmissionError, match=r"PairingMismatch: .*default/first: the pod is fail"):
        host.kubelet.start_container(first, "c0", CORE)
    host.wait_until(lambda: host.is_failed(first))
    seen = host.api.get("pods", "first")
    assert seen["status"]["reason"] == "PairingMismatch"
    assert [each["type"] for each in seen["status"]["conditions"]] == ["DisruptionTarget"]
    # Without a change of something else, the kubelet writes its own status over it.
    assert KEYS.gpu_assigned not in seen["metadata"]["annotations"]
    assert not host.is_failed(second)


@pytest.mark.parametrize("written", [True, False])
def test_a_pod_for_which_another_was_taken_is_admitted_all_the_same(
    host: Host, written: bool
) -> None:
    host.start_agent()
    pod, taken_for_it = host.share("pod", 0, now_ns=1), host.share("other", 1, now_ns=2)
    host.kubelet.answers = False  # the oldest decision is taken then
    assert card_of(host.kubelet.admit(taken_for_it)["c0"]) == "/dev/nvidia0"
    host.kubelet.answers = True
    if not written:
        (host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(taken_for_it, "c0", CORE)
    host.wait_until(lambda: host.is_failed(taken_for_it))
    assert card_of(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia0"
    host.kubelet.start_container(pod, "c0", CORE)


def test_devices_that_the_kubelet_gave_twice_stay_with_the_pod_that_runs(host: Host) -> None:
    agent = host.start_agent()
    pod, other = host.share("pod", 0), host.share("other", 1)
    for each in (pod, other):
        host.kubelet.admit(each)
    host.kubelet.start_container(pod, "c0", CORE)
    ids = host.kubelet.ids(pod, "c0", CORE)
    host.kubelet.known[other["metadata"]["uid"]].devices["c0"][CORE] = ids
    host.kubelet.write_checkpoint(other)
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(other, "c0", CORE)
    uid = other["metadata"]["uid"]
    host.wait_until(lambda: finished(agent.pods.get(uid) or {}))
    host.kubelet.known.pop(uid)
    host.kubelet.start_container(pod, "c0", CORE)


def test_a_container_that_the_originals_manager_answered_may_start_again(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    answer = host.kubelet.admit(pod)["c0"]
    answer.ClearField("annotations")
    answer.ClearField("mounts")
    host.kubelet.write_checkpoint(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    assert not host.is_failed(pod)


@pytest.mark.parametrize("written", [True, False])
def test_an_init_container_with_the_answer_of_another_pod_does_not_start(
    host: Host, written: bool
) -> None:
    host.start_agent()
    first, second = (
        host.create(
            make_pod(
                name,
                container("c0", 50, 32),
                init=(container("prepare", 50, 32),),
                annotations=decision((minor,), cores=50, memory=32),
            )
        )
        for minor, name in enumerate(("first", "second"))
    )
    for pod in (first, second):
        host.kubelet.admit(pod)
    host.kubelet.swap(first, second)
    if not written:
        (host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(first, "c0", CORE)
    host.wait_until(lambda: host.is_failed(first))


def test_a_pod_with_devices_that_no_record_has_is_failed_after_recovery(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    host.wait_until(lambda: host.agent.recovery.is_whole)
    host.agent.records.remove(pod["metadata"]["uid"])
    with pytest.raises(AdmissionError, match="NotAllocated"):
        host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: host.is_failed(pod))


@pytest.mark.long
def test_an_agent_fails_no_pod_before_it_has_restored_the_running_ones(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    host.stop_agent()
    (host.state / "checkpoint.json").unlink()
    host.cri.stop()  # the runtime lists no container
    host.start_agent()
    with pytest.raises(AdmissionError, match="NotAllocated"):
        host.kubelet.start_container(pod, "c0", CORE)
    assert host.agent.writes.pending == 0
    assert not host.is_failed(pod)
    host.cri.start()
    host.wait_until(lambda: _is_taken_up(host))
    assert card_of(host.kubelet.start_container(pod, "c0", CORE)) == "/dev/nvidia1"


def _is_taken_up(host: Host) -> bool:
    host.agent.recovery.restore()
    return host.agent.recovery.is_whole


def test_an_agent_that_starts_does_not_restore_an_answer_for_another_pod(host: Host) -> None:
    host.start_agent()
    first, second = _mistaken(host)
    host.agent.records.remove(first["metadata"]["uid"])
    host.stop_agent()
    host.start_agent()
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(first, "c0", CORE)
    host.wait_until(lambda: host.is_failed(first))
    assert not host.is_failed(second)


def test_whole_cards_of_another_pods_answer_do_not_start(host: Host) -> None:
    host.start_agent()
    first, second = host.whole_card("first", 0), host.whole_card("second", 1)
    for pod in (first, second):
        host.kubelet.admit(pod)
    known = [host.kubelet.known[pod["metadata"]["uid"]] for pod in (first, second)]
    known[0].answers, known[1].answers = known[1].answers, known[0].answers
    for pod in (first, second):
        host.kubelet.write_checkpoint(pod)
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(first, "c0", CORE)
    host.wait_until(lambda: host.is_failed(first))


def test_the_record_of_an_ended_pod_leaves_its_devices_to_the_next(host: Host) -> None:
    host.start_agent()
    ended = host.share("ended", 1)
    host.kubelet.admit(ended)
    host.end(ended)
    host.wait_until(lambda: host.agent.records.get(ended["metadata"]["uid"]) is None)
    ids = host.kubelet.ids(ended, "c0", CORE)
    host.kubelet.known.pop(ended["metadata"]["uid"])
    pod = host.share("next", 1)
    host.kubelet.admit(pod)
    assert host.kubelet.ids(pod, "c0", CORE) == ids
    host.kubelet.start_container(pod, "c0", CORE)
