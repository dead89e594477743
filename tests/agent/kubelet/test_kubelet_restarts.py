"""A kubelet dies during admissions: the agent tells the next one's calls apart, or fails the pod.

A kubelet that starts goes through all pods of its node in the order of their creation. It has no
devices until the plugins are registered, so it rejects pods that ask for some and don't run; and it
sends that to the API server only after all of them.
"""

import concurrent.futures
import faulthandler
import linecache
import re
import tempfile
import threading
from typing import Final

import pytest

from gpustack.adapters.deviceplugin import ContainerResponse, PluginRefusal
from tests.agent.host import CORE, MEMORY, Host, Pod, card_of, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError

_FRAME: Final = re.compile(r'  File "(.+)", line (\d+) in (\w+)')


def _restart_with(host: Host, *rejected: Pod) -> None:
    """Start another kubelet that has come to these pods before it knew a device."""
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
def test_a_pod_that_the_next_kubelet_rejected_is_not_taken_for_another(
    host: Host, has_get: bool, lists_active: bool
) -> None:
    host.kubelet.has_get, host.kubelet.lists_active = has_get, lists_active
    host.start_agent()
    rejected = host.share("rejected", 0, now_ns=2)  # the likelier one, but for its rejection
    admitted = host.share("admitted", 1, now_ns=1)
    _restart_with(host, rejected)
    assert card_of(host.kubelet.admit(admitted)["c0"]) == "/dev/nvidia1"


def test_a_pod_rejected_before_allocate_is_not_taken_for_the_next_one(host: Host) -> None:
    host.start_agent()
    host.kubelet.reject(host.share("rejected", 0, now_ns=2, second=2))
    admitted = host.share("admitted", 1, now_ns=1, second=1)
    assert card_of(host.kubelet.admit(admitted)["c0"]) == "/dev/nvidia1"
    assert host.agent.finder.ambiguities == 0


@pytest.mark.long
def test_an_older_kubelet_that_rejects_before_allocate_means_its_last_pod(host: Host) -> None:
    host.kubelet.lists_active = False
    host.start_agent()
    host.kubelet.reject(host.share("rejected", 0, now_ns=1, second=1))
    admitted = host.share("admitted", 1, now_ns=2, second=2)
    host.wait_until(lambda: host.agent.pods.get(admitted["metadata"]["uid"]) is not None)
    assert card_of(host.kubelet.admit(admitted)["c0"]) == "/dev/nvidia1"
    assert host.agent.finder.ambiguities > 0
    # Once another pod was admitted, the kubelet is known to have gone past the rejected one.
    older = host.share("older", 1, now_ns=3, second=0)
    assert card_of(host.kubelet.admit(older)["c0"]) == "/dev/nvidia1"


def test_a_pod_that_another_plugin_refused_is_not_taken_for_the_next(host: Host) -> None:
    host.kubelet.lists_active = False
    host.start_agent()
    halfway = host.share("halfway", 0, second=2)
    host.kubelet.allocate_resource(halfway, "c0", MEMORY)
    host.kubelet.reject(halfway)
    pod = host.share("next", 1, now_ns=2, second=1)
    assert card_of(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


@pytest.mark.long
@pytest.mark.parametrize("lists_active", [True, False])
def test_a_bad_request_rejected_by_the_next_kubelet_refuses_no_other_pod(
    host: Host, lists_active: bool
) -> None:
    host.kubelet.lists_active = lists_active
    host.start_agent()
    bad = host.create(make_pod("bad", container("c0", 150, 32)))
    pod = host.share("good", 1)
    _restart_with(host, bad)
    assert card_of(host.kubelet.admit(pod, memory_first=True)["c0"]) == "/dev/nvidia1"


@pytest.mark.long
def test_the_kubelets_checkpoint_tells_a_container_from_an_init_container(host: Host) -> None:
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
    assert host.kubelet.allocations == asked, "the kubelet has the answer and does not ask"
    assert card_of(host.kubelet.allocate(pod, first)) == "/dev/nvidia1"
    assert card_of(host.kubelet.allocate(pod, second)) == "/dev/nvidia0"
    for name in ("prepare", "c0", "c1"):
        answer = host.kubelet.start_container(pod, name, CORE)
        own = str(host.folder(pod, name) / "limits")
        assert own in {mount.host_path for mount in answer.mounts}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"Data": {"PodDeviceEntries": [{}]}}'])
def test_an_unreadable_kubelet_checkpoint_stops_no_pod(host: Host, content: str) -> None:
    host.start_agent()
    made = make_pod("p", container("c0", 50, 32), init=(container("prepare", 50, 32),))
    pod = host.create(made)
    host.kubelet.allocate(pod, made["spec"]["initContainers"][0])
    (host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint").write_text(content)
    host.kubelet.allocate(pod, made["spec"]["containers"][0])
    for name in ("prepare", "c0"):
        host.kubelet.start_container(pod, name, CORE)


@pytest.mark.long
def test_a_call_that_outlives_its_kubelet_changes_nothing_for_the_next(host: Host) -> None:
    host.start_agent()
    big = host.whole_card()
    blocking = host.share("blocking", 1)
    host.kubelet.admit(blocking)  # so the next call waits for room, four seconds long
    host.kubelet.know(big)
    call = threading.Thread(target=_refused, args=(host, big))
    asked = host.kubelet.allocations
    call.start()
    host.wait_until(lambda: host.kubelet.allocations > asked)
    _restart_with(host)
    host.api.delete("pods", "blocking")
    call.join()
    assert card_of(host.kubelet.admit(big)["c0"]) == "/dev/nvidia1"


@pytest.mark.long
def test_a_refusal_to_a_dead_kubelet_does_not_count_against_the_pod(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    dead = host.agent.finder.epoch
    _restart_with(host)
    host.agent.finder.refused(pod, dead)
    assert card_of(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


def test_a_waiting_call_is_refused_when_its_kubelet_dies(host: Host) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("blocking", 1))
    big = host.whole_card()
    behind = host.share("behind", 0)
    for pod in (big, behind):
        host.kubelet.know(pod)
    with concurrent.futures.ThreadPoolExecutor() as calls:
        first = calls.submit(_allocate, host, 100)
        host.wait_until(_waits_for_room)
        second = calls.submit(_allocate, host, 50)
        host.wait_until(_waits_behind_another_call)
        host.agent.finder.kubelet_restarted()
        host.api.delete("pods", "blocking")
        assert first.result(10).devices[0].path == "/dev/nvidia1"
        with pytest.raises(PluginRefusal, match="KubeletRestarted"):
            second.result(10)
    # The next kubelet lacks the answer that the dead one got: it asks again.
    assert card_of(host.kubelet.admit(big)["c0"]) == "/dev/nvidia1"


def _allocate(host: Host, count: int) -> ContainerResponse:
    return host.agent.allocator.allocate_cores([f"{CORE}-{n}" for n in range(count)])


def _stacks() -> list[list[tuple[str, str]]]:
    """Return each thread's stack, the innermost first: name of the function, text of the line.

    A frame of another thread can't be read from Python: its `f_locals` ended Python 3.11 by a
    segmentation fault. faulthandler only reads.
    """
    with tempfile.TemporaryFile("w+") as dump:
        faulthandler.dump_traceback(dump)
        dump.seek(0)
        threads = dump.read().split("\n\n")
    return [
        [(name, linecache.getline(file, int(line)).strip()) for file, line, name in found]
        for found in map(_FRAME.findall, threads)
    ]


def _waits_for_room() -> bool:
    return any(name == "_until_room" for stack in _stacks() for name, _ in stack)


def _waits_behind_another_call() -> bool:
    """Whether a call knows its kubelet's epoch, and waits for the lock of the calls."""
    innermost = [stack[0] for stack in _stacks() if stack]
    return any(name == "allocate_cores" and "kubelet_call" in line for name, line in innermost)


def _refused(host: Host, pod: Pod) -> None:
    with pytest.raises(AdmissionError):
        host.kubelet.admit(pod)
