"""Allocate does not name the pod: the agent finds it, also when the kubelet is slow or silent."""

import threading
from typing import Any

import pytest

from gpustack.adapters.kube import KubeClient
from gpustack.agent.cluster.pods import PodView
from gpustack.wire.pods import finished
from tests.agent.host import (
    CORE,
    MEMORY,
    NODE,
    Host,
    Pod,
    container,
    decision,
    make_pod,
)
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import card

_DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:01Z"}}


def _is_deleted(host: Host, pod: Pod) -> bool:
    seen = host.agent.pods.get(pod["metadata"]["uid"])
    return seen is not None and "deletionTimestamp" in seen["metadata"]


def _two_pods(host: Host) -> tuple[Pod, Pod]:
    """Two pods that ask for the same; the one that was decided later is admitted first."""
    early = make_pod(
        "early", container("c0", 50, 32), annotations=decision((0,), cores=50, memory=32, now_ns=1)
    )
    late = make_pod(
        "late", container("c0", 50, 32), annotations=decision((1,), cores=50, memory=32, now_ns=2)
    )
    return host.create(early), host.create(late)


def test_a_call_means_the_admitted_pod_and_not_the_one_decided_first(host: Host) -> None:
    host.start_agent()
    early, late = _two_pods(host)
    assert host.kubelet.admit(late)["c0"].devices[0].host_path == "/dev/nvidia1"
    assert host.kubelet.admit(early)["c0"].devices[0].host_path == "/dev/nvidia0"


def test_a_kubelet_without_get_is_asked_for_its_list(host: Host) -> None:
    host.kubelet.has_get = False
    host.start_agent()
    early, late = _two_pods(host)
    assert host.kubelet.admit(late)["c0"].devices[0].host_path == "/dev/nvidia1"
    assert host.kubelet.admit(early)["c0"].devices[0].host_path == "/dev/nvidia0"
    assert host.agent.finder.guesses == 0


def test_without_the_kubelet_the_oldest_decision_is_guessed_and_counted(host: Host) -> None:
    host.kubelet.answers = False
    host.start_agent()
    early, _ = _two_pods(host)
    assert host.kubelet.admit(early)["c0"].devices[0].host_path == "/dev/nvidia0"
    assert host.agent.finder.guesses > 0
    assert host.agent.finder.ambiguities > 0


def test_a_pod_that_the_watch_shows_late_is_waited_for(host: Host) -> None:
    host.start_agent()
    host.api.hold_watches()
    pod = host.create(make_pod("p", container("c0", 50, 32)))
    release = threading.Timer(0.1, host.api.release_watches)
    release.start()
    assert host.kubelet.admit(pod)["c0"].devices
    release.join()


def test_a_pod_that_the_watch_never_shows_is_asked_for_once(host: Host) -> None:
    host.start_agent()
    host.api.hold_watches()
    pod = host.create(make_pod("p", container("c0", 50, 32)))
    assert host.kubelet.admit(pod)["c0"].devices


def test_an_api_server_that_is_away_is_named_after_a_bounded_wait(host: Host) -> None:
    host.start_agent()
    host.api.hold_watches()
    pod = host.create(make_pod("p", container("c0", 50, 32)))
    host.api.faults.fail("GET", "/api/v1/pods", status=503, times=10)
    with pytest.raises(AdmissionError, match="ApiServerAway: no waiting pod is known"):
        host.kubelet.admit(pod)


def test_a_kubelet_that_answers_again_is_asked_by_get(host: Host) -> None:
    host.start_agent()
    host.kubelet.answers = False
    host.kubelet.admit(host.create(make_pod("p", container("c0", 50, 32))))
    host.kubelet.answers = True
    guesses = host.agent.finder.guesses
    host.kubelet.admit(host.create(make_pod("q", container("c0", 50, 32))))
    assert host.agent.finder.guesses == guesses
    assert host.kubelet.lists == 1, "for the pod's first devices only"


def test_a_call_that_no_pod_waits_for_fails_with_a_reason(host: Host) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 50, 32)))
    pod["spec"]["containers"][0]["resources"]["limits"][CORE] = "49"
    with pytest.raises(AdmissionError, match="NoCandidate: no pod of this node waits for 49"):
        host.kubelet.allocate_resource(pod, "c0", CORE)


def test_a_kubelet_restarted_during_admission_gets_the_same_answer(host: Host) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 50, 32)))
    first = host.kubelet.admit(pod)["c0"]
    host.kubelet.forget(pod)
    host.kubelet.restart()
    host.kubelet.wait_for_plugins(CORE, MEMORY)
    assert host.kubelet.admit(pod, memory_first=True)["c0"] == first
    assert len(host.agent.records.all()) == 1


def test_a_running_pod_that_the_kubelet_forgot_is_no_candidate(host: Host) -> None:
    host.start_agent()
    early, late = _two_pods(host)
    host.kubelet.admit(early)
    host.cri.run(early["metadata"]["uid"], "c0")
    host.kubelet.forget(early)
    host.kubelet.know(early)
    assert host.kubelet.admit(late)["c0"].devices[0].host_path == "/dev/nvidia1"


def test_a_finished_pod_is_no_candidate(host: Host) -> None:
    host.start_agent()
    early, late = _two_pods(host)
    host.kubelet.know(early)
    host.end(early, "Failed")
    host.wait_until(lambda: finished(host.agent.pods.get(early["metadata"]["uid"]) or {}))
    assert host.kubelet.admit(late)["c0"].devices[0].host_path == "/dev/nvidia1"


def test_a_refused_pod_is_not_taken_for_the_next_one(host: Host) -> None:
    host.start_agent()
    written = decision((0,), cores=50, memory=32)
    written["tencent.com/predicate-gpu-uuid-0"] = card(1).uuid
    wrong = host.create(make_pod("wrong", container("c0", 50, 32), annotations=written))
    with pytest.raises(AdmissionError, match="CardRenumbered"):
        host.kubelet.admit(wrong)
    right = decision((1,), cores=50, memory=32, now_ns=2)
    pod = host.create(make_pod("right", container("c0", 50, 32), annotations=right))
    # The kubelet goes on at once, and the API server still calls the refused pod pending.
    assert host.kubelet.admit(pod)["c0"].devices[0].host_path == "/dev/nvidia1"


def test_a_pod_deleted_before_it_ran_is_not_taken_for_the_next_one(host: Host) -> None:
    host.start_agent()
    early, late = _two_pods(host)
    host.kubelet.admit(early)
    for pod in (early, late):
        host.api.edit("pods", pod["metadata"]["name"], _DELETED)
    host.wait_until(lambda: all(_is_deleted(host, pod) for pod in (early, late)))
    # The kubelet's device manager forgets a pod that won't run; the kubelet still knows the pod.
    host.kubelet.forget(early)
    host.kubelet.know(early)
    assert host.kubelet.admit(late)["c0"].devices[0].host_path == "/dev/nvidia1"


def test_a_deletion_that_only_the_kubelet_knows_is_waited_for(host: Host) -> None:
    host.start_agent()
    early, late = _two_pods(host)
    host.wait_until(lambda: host.agent.pods.get(late["metadata"]["uid"]) is not None)
    host.api.hold_watches()
    host.kubelet.know(early)  # but the kubelet doesn't admit the pod, because it is being deleted
    host.api.edit("pods", "early", _DELETED)
    release = threading.Timer(0.1, host.api.release_watches)
    release.start()
    assert host.kubelet.admit(late)["c0"].devices[0].host_path == "/dev/nvidia1"
    release.join()


def test_a_pod_that_was_begun_comes_before_one_that_was_decided_earlier(host: Host) -> None:
    host.start_agent()
    other = decision((0,), cores=40, memory=16, now_ns=1)
    rejected = host.create(make_pod("rejected", container("c0", 40, 16), annotations=other))
    two = make_pod("two", container("c0", 50, 32), container("c1", 40, 16))
    pod = host.create(two)
    host.kubelet.allocate(pod, pod["spec"]["containers"][0])
    host.kubelet.know(rejected)
    host.kubelet.allocate(pod, pod["spec"]["containers"][1])
    record = host.agent.records.get(pod["metadata"]["uid"])
    assert record is not None
    assert [len(each.core_ids) for each in record.containers] == [50, 40]


def test_a_second_container_waits_for_the_first_ones_memory(host: Host) -> None:
    host.start_agent()
    pod = host.create(
        make_pod(
            "p",
            container("c0", 50, 32),
            container("c1", 50, 16),
        )
    )
    host.kubelet.allocate_resource(pod, "c0", CORE)
    host.kubelet.allocate_resource(pod, "c0", MEMORY)
    host.kubelet.allocate_resource(pod, "c1", MEMORY)
    host.kubelet.allocate_resource(pod, "c1", CORE)
    record = host.agent.records.get(pod["metadata"]["uid"])
    assert record is not None
    assert [len(each.memory_ids) for each in record.containers] == [32, 16]
    assert [len(each.core_ids) for each in record.containers] == [50, 50]


@pytest.mark.parametrize("memory_first", [False, True])
def test_an_init_container_after_a_sidecar_is_not_taken_for_done(
    host: Host, memory_first: bool
) -> None:
    host.start_agent()
    init = (
        container("i0", 50, 32),
        container("side", 20, 8, restartPolicy="Always"),
        container("i1", 10, 4),
    )
    pod = host.create(make_pod("p", container("app", 50, 32), init=init))
    host.kubelet.admit(pod, memory_first=memory_first)
    record = host.agent.records.get(pod["metadata"]["uid"])
    assert record is not None
    taken = {each.name: (len(each.core_ids), len(each.memory_ids)) for each in record.containers}
    assert taken == {"i0": (50, 32), "side": (20, 8), "i1": (10, 4), "app": (50, 32)}


class _LateAnswers(KubeClient):
    """Holds back the API server's answer until the test lets it go."""

    answered = threading.Event()
    go_on = threading.Event()

    def get_raw(self, *arguments: Any, **options: Any) -> bytes:
        answer = super().get_raw(*arguments, **options)
        if threading.current_thread().name == "late":
            self.answered.set()
            self.go_on.wait(10)
        return answer


def test_a_list_older_than_the_watch_brings_no_deleted_pod_back(host: Host) -> None:
    client = _LateAnswers.from_kubeconfig(host.settings().kubeconfig)
    pods = PodView(client=client, node_name=NODE)
    pods.start()
    uid = host.create(make_pod("p", container("c0", 50, 32)))["metadata"]["uid"]
    host.wait_until(lambda: pods.get(uid) is not None)
    asking = threading.Thread(target=pods.refresh, args=(5.0,), name="late")
    asking.start()
    assert _LateAnswers.answered.wait(10)
    host.api.delete("pods", "p")
    host.wait_until(lambda: pods.get(uid) is None)
    _LateAnswers.go_on.set()
    asking.join()
    pods.stop()
    assert pods.get(uid) is None
