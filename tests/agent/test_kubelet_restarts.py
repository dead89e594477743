"""A kubelet dies while it admits pods: the next one's calls are told apart, or the pod is failed.

A kubelet that starts goes through all pods of its node in the order of their creation. It has no
devices until the plugins are registered, so it rejects those that ask for some and don't run; and
the API server hears of that only when it is through with all of them.
"""

import concurrent.futures
import sys
import threading
import types
from typing import Any

import pytest

from gpustack.adapters.deviceplugin import ContainerResponse, PluginRefusal
from gpustack.wire.pods import finished
from tests.agent.host import CORE, KEYS, MEMORY, Host, Pod, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError


def _share(host: Host, name: str, minor: int, *, now_ns: int = 1, second: int = 0) -> Pod:
    written = decision((minor,), cores=50, memory=32, now_ns=now_ns)
    pod = make_pod(name, container("c0", 50, 32), annotations=written)
    pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02d}Z"
    return host.create(pod)


def _card(answer: Any) -> str:
    return str(answer.devices[0].host_path)


def _is_failed(host: Host, pod: Pod) -> bool:
    return finished(host.api.get("pods", pod["metadata"]["name"]))


def _restart_with(host: Host, *rejected: Pod) -> None:
    """Start another kubelet that has come to these pods before it knew any device."""
    host.kubelet.crash()
    for pod in rejected:
        host.kubelet.reject(pod)
    host.kubelet.start()
    host.kubelet.wait_for_plugins(CORE, MEMORY)


@pytest.mark.parametrize(
    ("has_get", "lists_active"),
    [
        (True, True),
        pytest.param(True, False, marks=pytest.mark.long),
        pytest.param(False, False, marks=pytest.mark.long),
    ],
)
def test_a_pod_that_the_next_kubelet_rejected_is_not_taken_for_the_one_that_it_admits(
    host: Host, has_get: bool, lists_active: bool
) -> None:
    host.kubelet.has_get, host.kubelet.lists_active = has_get, lists_active
    host.start_agent()
    rejected = _share(host, "rejected", 0, now_ns=2)  # the likelier one, but for its rejection
    admitted = _share(host, "admitted", 1, now_ns=1)
    _restart_with(host, rejected)
    assert _card(host.kubelet.admit(admitted)["c0"]) == "/dev/nvidia1"


def test_a_pod_that_this_kubelet_rejects_without_asking_is_not_taken_for_the_next_one(
    host: Host,
) -> None:
    host.start_agent()
    host.kubelet.reject(_share(host, "rejected", 0, now_ns=2, second=2))
    admitted = _share(host, "admitted", 1, now_ns=1, second=1)
    assert _card(host.kubelet.admit(admitted)["c0"]) == "/dev/nvidia1"
    assert host.agent.finder.ambiguities == 0


@pytest.mark.long
def test_an_older_kubelet_that_rejects_without_asking_means_the_pod_that_it_came_to_last(
    host: Host,
) -> None:
    host.kubelet.lists_active = False
    host.start_agent()
    host.kubelet.reject(_share(host, "rejected", 0, now_ns=1, second=1))
    admitted = _share(host, "admitted", 1, now_ns=2, second=2)
    assert _card(host.kubelet.admit(admitted)["c0"]) == "/dev/nvidia1"
    assert host.agent.finder.ambiguities > 0
    # Once another pod was admitted, the rejected one is known to have had its turn.
    older = _share(host, "older", 1, now_ns=3, second=0)
    assert _card(host.kubelet.admit(older)["c0"]) == "/dev/nvidia1"


def test_a_pod_that_another_plugin_refused_halfway_is_not_taken_for_the_next_one(
    host: Host,
) -> None:
    host.kubelet.lists_active = False
    host.start_agent()
    halfway = _share(host, "halfway", 0, second=2)
    host.kubelet.allocate_resource(halfway, "c0", MEMORY)
    host.kubelet.reject(halfway)
    pod = _share(host, "next", 1, now_ns=2, second=1)
    assert _card(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


@pytest.mark.long
@pytest.mark.parametrize("lists_active", [True, False])
def test_a_bad_request_that_the_next_kubelet_rejected_does_not_refuse_another_pod(
    host: Host, lists_active: bool
) -> None:
    host.kubelet.lists_active = lists_active
    host.start_agent()
    bad = host.create(make_pod("bad", container("c0", 150, 32)))
    pod = _share(host, "good", 1)
    _restart_with(host, bad)
    assert _card(host.kubelet.admit(pod, memory_first=True)["c0"]) == "/dev/nvidia1"


@pytest.mark.long
def test_a_container_after_an_init_container_is_told_from_it_by_what_the_kubelet_wrote_down(
    host: Host,
) -> None:
    host.start_agent()
    made = make_pod(
        "p",
        container("c0", 50, 32),
        container("c1", 50, 32),
        init=(container("prepare", 50, 32),),
        annotations=decision((1,), (0,), cores=50, memory=32),
    )
    pod = host.create(made)
    (init,), (first, second) = made["spec"]["initContainers"], made["spec"]["containers"]
    host.kubelet.allocate(pod, init)
    _restart_with(host)
    asked = host.kubelet.allocations
    host.kubelet.allocate(pod, init)
    assert host.kubelet.allocations == asked, "the kubelet has it and does not ask"
    assert _card(host.kubelet.allocate(pod, first)) == "/dev/nvidia1"
    assert _card(host.kubelet.allocate(pod, second)) == "/dev/nvidia0"
    for name in ("prepare", "c0", "c1"):
        answer = host.kubelet.start_container(pod, name, CORE)
        own = str(host.folder(pod, name) / "limits")
        assert own in {mount.host_path for mount in answer.mounts}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"Data": {"PodDeviceEntries": [{}]}}'])
def test_a_checkpoint_of_the_kubelet_that_nobody_can_read_stops_no_pod(
    host: Host, content: str
) -> None:
    host.start_agent()
    made = make_pod("p", container("c0", 50, 32), init=(container("prepare", 50, 32),))
    pod = host.create(made)
    host.kubelet.allocate(pod, made["spec"]["initContainers"][0])
    (host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint").write_text(content)
    host.kubelet.allocate(pod, made["spec"]["containers"][0])
    for name in ("prepare", "c0"):
        host.kubelet.start_container(pod, name, CORE)


@pytest.mark.long
def test_a_call_that_outlives_its_kubelet_changes_nothing_for_the_next_one(host: Host) -> None:
    host.start_agent()
    big = host.create(
        make_pod("big", container("c0", 100), annotations=decision((1,), cores=100, memory=0))
    )
    blocking = _share(host, "blocking", 1)
    host.kubelet.admit(blocking)  # so the next call waits for room, four seconds long
    host.kubelet.know(big)
    call = threading.Thread(target=_refused, args=(host, big))
    asked = host.kubelet.allocations
    call.start()
    host.wait_until(lambda: host.kubelet.allocations > asked)
    _restart_with(host)
    host.api.delete("pods", "blocking")
    call.join()
    assert _card(host.kubelet.admit(big)["c0"]) == "/dev/nvidia1"


@pytest.mark.long
def test_a_refusal_that_a_dead_kubelet_was_told_is_not_remembered_against_the_pod(
    host: Host,
) -> None:
    host.start_agent()
    pod = _share(host, "p", 1)
    dead = host.agent.finder.epoch
    _restart_with(host)
    host.agent.finder.refused(pod, dead)
    assert _card(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


def test_a_call_that_waits_behind_another_while_its_kubelet_dies_is_refused(host: Host) -> None:
    host.start_agent()
    host.kubelet.admit(_share(host, "blocking", 1))
    big = host.create(
        make_pod("big", container("c0", 100), annotations=decision((1,), cores=100, memory=0))
    )
    behind = _share(host, "behind", 0)
    for pod in (big, behind):
        host.kubelet.know(pod)
    with concurrent.futures.ThreadPoolExecutor() as calls:
        first = calls.submit(_allocate, host, 100)
        host.wait_until(lambda: _is_inside("_until_room"))
        second = calls.submit(_allocate, host, 50)
        host.wait_until(lambda: _is_inside("allocate_cores", knowing="epoch"))
        host.agent.finder.kubelet_restarted()
        host.api.delete("pods", "blocking")
        assert first.result(10).devices[0].path == "/dev/nvidia1"
        with pytest.raises(PluginRefusal, match="KubeletRestarted"):
            second.result(10)
    # What was answered to the dead kubelet is nothing to the next one, which asks again.
    assert _card(host.kubelet.admit(big)["c0"]) == "/dev/nvidia1"


def _allocate(host: Host, count: int) -> ContainerResponse:
    return host.agent.allocator.allocate_cores([f"{CORE}-{n}" for n in range(count)])


def _is_inside(function: str, *, knowing: str = "") -> bool:
    """Whether a thread is in this function, waits for a lock there and has this variable."""
    for frame in sys._current_frames().values():
        outer: types.FrameType | None = frame
        while outer is not None and outer.f_code.co_name != function:
            outer = None if knowing else outer.f_back
        if outer is not None and (not knowing or knowing in outer.f_locals):
            return True
    return False


def _refused(host: Host, pod: Pod) -> None:
    with pytest.raises(AdmissionError):
        host.kubelet.admit(pod)


def _mistaken(host: Host) -> tuple[Pod, Pod]:
    """Two pods, the first of which was given what was meant for the second."""
    first, second = _share(host, "first", 0), _share(host, "second", 1)
    for pod in (first, second):
        host.kubelet.admit(pod)
    host.kubelet.swap(first, second)
    host.kubelet.forget(second)
    host.kubelet.know(second)
    return first, second


def test_a_pod_that_holds_what_was_made_for_another_is_failed_and_the_other_is_not(
    host: Host,
) -> None:
    host.start_agent()
    first, second = _mistaken(host)
    with pytest.raises(AdmissionError, match=r"PairingMismatch: .*default/first: the pod is fail"):
        host.kubelet.start_container(first, "c0", CORE)
    host.wait_until(lambda: _is_failed(host, first))
    seen = host.api.get("pods", "first")
    assert seen["status"]["reason"] == "PairingMismatch"
    assert [each["type"] for each in seen["status"]["conditions"]] == ["DisruptionTarget"]
    # Without a change of something else, the kubelet writes its own status over it.
    assert KEYS.gpu_assigned not in seen["metadata"]["annotations"]
    assert not _is_failed(host, second)


def test_a_container_that_the_originals_manager_answered_may_start_again(host: Host) -> None:
    host.start_agent()
    pod = _share(host, "p", 1)
    answer = host.kubelet.admit(pod)["c0"]
    answer.ClearField("annotations")
    answer.ClearField("mounts")
    host.kubelet.write_checkpoint(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    assert not _is_failed(host, pod)


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
    host.wait_until(lambda: _is_failed(host, first))


def test_a_pod_whose_devices_nobody_was_given_is_failed_once_no_record_can_come(
    host: Host,
) -> None:
    host.start_agent()
    pod = _share(host, "p", 1)
    host.kubelet.admit(pod)
    host.wait_until(lambda: host.agent.recovery.is_whole)
    host.agent.records.remove(pod["metadata"]["uid"])
    with pytest.raises(AdmissionError, match="NotAllocated"):
        host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: _is_failed(host, pod))


@pytest.mark.long
def test_an_agent_that_has_not_taken_up_a_pod_yet_does_not_fail_it(host: Host) -> None:
    host.start_agent()
    pod = _share(host, "p", 1)
    host.kubelet.admit(pod)
    host.stop_agent()
    (host.state / "checkpoint.json").unlink()
    host.cri.stop()  # nobody says what runs
    host.start_agent()
    with pytest.raises(AdmissionError, match="NotAllocated"):
        host.kubelet.start_container(pod, "c0", CORE)
    assert host.agent.writes.pending == 0
    assert not _is_failed(host, pod)
    host.cri.start()
    host.wait_until(lambda: _is_taken_up(host))
    assert _card(host.kubelet.start_container(pod, "c0", CORE)) == "/dev/nvidia1"


def _is_taken_up(host: Host) -> bool:
    host.agent.recovery.restore()
    return host.agent.recovery.is_whole


def test_an_agent_that_starts_between_does_not_take_up_what_was_made_for_another(
    host: Host,
) -> None:
    host.start_agent()
    first, second = _mistaken(host)
    host.agent.records.remove(first["metadata"]["uid"])
    host.stop_agent()
    host.start_agent()
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(first, "c0", CORE)
    host.wait_until(lambda: _is_failed(host, first))
    assert not _is_failed(host, second)
