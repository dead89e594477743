"""A wrong annotation or limit of one pod fails no other pod's Allocate."""

import pytest

from gpustack.wire.annotations import annotations_of
from gpustack.wire.pods import leaving
from tests.agent.host import (
    KEYS,
    Host,
    Pod,
    card_of,
    container,
    decision,
    make_pod,
)
from tests.fakes.kubelet import AdmissionError

_USER_KEYS = ["gpu-topology", "gpu-placement", "gpu-model", "gpu-uuid"]


def _annotate_badly(host: Host, pod: Pod, key: str) -> None:
    name = f"{KEYS.domain}/{key}"
    host.api.edit("pods", pod["metadata"]["name"], {"metadata": {"annotations": {name: ","}}})
    uid = pod["metadata"]["uid"]
    host.wait_until(lambda: name in annotations_of(host.agent.pods.get(uid) or {}))


@pytest.mark.parametrize("key", _USER_KEYS)
def test_a_bad_user_key_of_a_running_pod_fails_no_other_pod(host: Host, key: str) -> None:
    host.start_agent()
    other = host.share("other", 0)
    host.kubelet.admit(other)
    _annotate_badly(host, other, key)
    assert card_of(host.kubelet.admit(host.share("mine", 1))["c0"]) == "/dev/nvidia1"


@pytest.mark.parametrize("key", _USER_KEYS)
def test_a_decided_pod_with_a_bad_user_key_starts(host: Host, key: str) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    _annotate_badly(host, pod, key)
    assert card_of(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("memory_first", [True, False])
def test_impossible_limits_fail_no_other_pod(host: Host, memory_first: bool, answers: bool) -> None:
    host.start_agent()
    host.kubelet.answers = answers
    bad = host.create(make_pod("bad", container("c0", 150, 32), container("c1", 50)))
    host.kubelet.know(bad)
    pod = host.share("good", 1)
    answer = host.kubelet.admit(pod, memory_first=memory_first)
    assert card_of(answer["c0"]) == "/dev/nvidia1"


def test_impossible_limits_fail_no_pod_that_the_watch_shows_late(host: Host) -> None:
    host.start_agent()
    bad = host.create(make_pod("bad", container("c0", 50)))
    host.kubelet.know(bad)
    host.wait_until(lambda: host.agent.pods.get(bad["metadata"]["uid"]) is not None)
    host.api.hold_watches()
    pod = host.share("late", 1)
    assert card_of(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


def test_impossible_limits_fail_their_own_pod_at_once(host: Host) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("other", 1))
    bad = host.create(make_pod("bad", container("c0", 50, 32), container("c1", 50)))
    with pytest.raises(AdmissionError, match=r"BadRequest: pod default/bad: .*containers\[1\]"):
        host.kubelet.admit(bad)


def test_impossible_limits_take_no_card_of_a_pod_that_goes(host: Host) -> None:
    host.start_agent()
    going = host.share("going", 1)
    host.kubelet.know(going)
    host.api.edit("pods", "going", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:01Z"}})
    uid = going["metadata"]["uid"]
    host.wait_until(lambda: leaving(host.agent.pods.get(uid) or {}))
    bad = host.create(make_pod("bad", container("c0", 50, 32), container("c1", 50)))
    with pytest.raises(AdmissionError, match="BadRequest: pod default/bad: "):
        host.kubelet.admit(bad)
    assert host.agent.records.all() == ()


@pytest.mark.parametrize("time", ["9" * 5000, "soon", "-1"])
def test_an_unreadable_decision_time_fails_no_other_pod(host: Host, time: str) -> None:
    host.kubelet.answers = False
    written = decision((0,), cores=50, memory=32) | {KEYS.predicate_time: time}
    host.create(make_pod("bad", container("c0", 50, 32), annotations=written))
    host.start_agent()
    good = host.share("good", 1)
    # without the kubelet's answer a lone match is taken at once, and the watch may be behind
    host.wait_until(lambda: host.agent.pods.get(good["metadata"]["uid"]) is not None)
    assert card_of(host.kubelet.admit(good)["c0"]) == "/dev/nvidia1"
