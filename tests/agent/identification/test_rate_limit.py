"""The kubelet limits the rate of questions: the agent asks few, asks again, and never guesses."""

import pytest

from gpustack.agent.containers import restore
from tests.agent.host import CORE, KEYS, MEMORY, Host, Pod, card_of, container, decision, make_pod
from tests.agent.other_client import other_client
from tests.fakes.kubelet import AdmissionError

_PODS = 48
_CALLS_AN_ALLOCATE = 2


def _many(host: Host) -> list[Pod]:
    """Pods that all ask for the same, on two cards by turns."""
    return [
        host.create(
            make_pod(
                f"p{number}",
                container("c0", 4, 8),
                annotations=decision((number % 2,), cores=4, memory=8, now_ns=number + 1),
            )
        )
        for number in range(_PODS)
    ]


@pytest.mark.parametrize("has_get", [True, pytest.param(False, marks=pytest.mark.long)])
def test_many_waiting_pods_cost_few_questions(host: Host, has_get: bool) -> None:
    host.kubelet.has_get = host.kubelet.lists_active = has_get
    host.start_agent()
    pods = _many(host)
    host.wait_until(lambda: len(host.agent.pods.snapshot()[0]) == _PODS)
    asked, allocations = host.kubelet.calls, host.kubelet.allocations
    # The scheduler's order isn't the kubelet's: only the kubelet's answer names the pod.
    for number in reversed(range(_PODS)):
        assert card_of(host.kubelet.admit(pods[number])["c0"]) == f"/dev/nvidia{number % 2}"
    allocations = host.kubelet.allocations - allocations
    assert allocations == 2 * _PODS
    assert host.kubelet.calls - asked <= _CALLS_AN_ALLOCATE * allocations
    assert (host.agent.finder.guesses, host.agent.finder.ambiguities) == (0, 0)


@pytest.mark.long
def test_pods_start_at_once_beside_another_client_without_a_guess(host: Host) -> None:
    host.start_agent()
    pods = _many(host)
    asked = host.kubelet.calls
    with other_client(host.kubelet) as own:
        for number, pod in enumerate(pods):
            assert card_of(host.kubelet.admit(pod)["c0"]) == f"/dev/nvidia{number % 2}"
            answer = host.kubelet.start_container(pod, "c0", CORE)
            assert answer.annotations[KEYS.vcuda_pod_uid] == pod["metadata"]["uid"]
    finder, refusals = host.agent.finder, host.agent.refusals
    assert (finder.guesses, finder.ambiguities, refusals.mismatches) == (0, 0, 0)
    assert own.calls > 0
    ours = host.kubelet.calls - asked - own.calls
    assert ours <= _CALLS_AN_ALLOCATE * host.kubelet.allocations


def test_a_pod_that_has_all_it_asks_for_is_not_asked_about(host: Host) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("done", 0))
    asked = host.kubelet.calls
    host.kubelet.admit(host.share("next", 1))
    assert host.kubelet.calls - asked == len((CORE, MEMORY))


def test_a_refused_question_is_asked_again_and_nothing_is_guessed(host: Host) -> None:
    host.start_agent()
    early, late = host.share("early", 0, now_ns=1), host.share("late", 1, now_ns=2)
    host.kubelet.limited = 20
    assert card_of(host.kubelet.admit(late)["c0"]) == "/dev/nvidia1"
    assert card_of(host.kubelet.admit(early)["c0"]) == "/dev/nvidia0"
    assert host.kubelet.limited == 0
    assert host.agent.finder.guesses == 0


@pytest.mark.long
def test_a_kubelet_that_refuses_for_ever_fails_the_pod_by_name(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.limited = 1_000_000
    with pytest.raises(AdmissionError, match=r"KubeletBusy: .*rate limit"):
        host.kubelet.admit(pod)
    assert host.agent.finder.guesses == 0
    host.kubelet.limited = 0
    assert card_of(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


def test_an_agent_that_starts_among_waiting_pods_costs_few_questions(host: Host) -> None:
    _many(host)
    asked = host.kubelet.calls
    host.start_agent(registered=False)
    assert host.kubelet.calls - asked < _PODS / 4


def test_an_agent_starts_although_the_kubelet_refuses_for_ever(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "_KUBELET_SECONDS", 0.1)
    pods = _many(host)
    host.kubelet.limited = 1_000_000
    host.start_agent()
    assert not host.agent.recovery.is_whole
    host.kubelet.limited = 0
    assert card_of(host.kubelet.admit(pods[1])["c0"]) == "/dev/nvidia1"
