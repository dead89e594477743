"""A pod that was deleted by force, or has failed, is over while its containers run on."""

import threading
import time
from typing import Any

import pytest

from gpustack.agent.containers import recent_starts
from gpustack.model.units import CORES_PER_CARD
from gpustack.model.use import IDLE, Use
from gpustack.wire.nodes import decode_node
from gpustack.wire.pods import finished
from tests.agent.host import CORE, KEYS, NODE, Host, Pod, card_of
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import card


def _lose(host: Host, pod: Pod, **annotations: str) -> str:
    """Run a pod's container, delete the pod by force, lose the records; return the container."""
    answer = host.kubelet.admit(pod)["c0"]
    said = {**answer.annotations, **annotations}
    name = pod["metadata"]["name"]
    running = host.cri.run(pod["metadata"]["uid"], "c0", pod=name, annotations=said)
    host.stop_agent()
    host.api.delete("pods", name)
    (host.state / "checkpoint.json").unlink()
    host.start_agent()
    return running


def _in_the_making(host: Host, name: str) -> tuple[Pod, str]:
    """Let a share's container be made, which the runtime does not list yet; return pod and UID."""
    pod = host.share(name, 1)
    uid = pod["metadata"]["uid"]
    host.kubelet.admit(pod)
    host.cri.make_sandbox(uid)
    host.kubelet.start_container(pod, "c0", CORE)
    return pod, uid


def _is_taken(host: Host) -> None:
    """Check that no pod gets card 1."""
    refused = host.whole_card("refused", 1)
    with pytest.raises(AdmissionError, match="NoWholeCard"):
        host.kubelet.admit(refused)
    host.end(refused, "Failed")


def _is_given_when_it_ends(host: Host, running: str) -> None:
    """Check that another pod gets card 1 after the end of this container, and not before."""
    _is_taken(host)
    host.cri.exit(running)
    assert card_of(host.kubelet.admit(host.whole_card("next", 1))["c0"]) == "/dev/nvidia1"


@pytest.mark.usefixtures("short_wait")
def test_its_cards_stay_taken_when_the_records_are_lost(host: Host) -> None:
    host.start_agent()
    running = _lose(host, host.share("gone", 1))
    (record,) = host.agent.records.all()
    (container,) = record.containers
    assert (record.namespace, record.name) == ("default", "gone")
    placement = container.placement
    assert (placement.minors, placement.uuids) == ((1,), (card(1).uuid,))
    assert (placement.cores, placement.memory_units) == (50, 32)
    _is_given_when_it_ends(host, running)


@pytest.mark.parametrize("cores", ["", "many", "-5", "9" * 5000])
def test_a_container_with_unreadable_amounts_keeps_all_of_its_card(host: Host, cores: str) -> None:
    host.start_agent()
    _lose(host, host.share("gone", 1), **{KEYS.vcuda_core: cores})
    (record,) = host.agent.records.all()
    assert record.containers[0].placement.cores == CORES_PER_CARD


def test_a_card_is_not_free_while_a_container_of_its_pod_may_start(host: Host) -> None:
    """The runtime lists it once it is made, and the API server no more."""
    host.start_agent()
    pod = host.whole_card("gone", 1)
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    host.api.delete("pods", "gone")
    host.kubelet.remove(pod)
    host.wait_until(lambda: host.agent.pods.get(pod["metadata"]["uid"]) is None)
    host.agent.recovery.free_ended()
    running = host.cri.run(pod["metadata"]["uid"], "c0")
    with pytest.raises(AdmissionError, match="are over and may still run here: 1"):
        host.kubelet.admit(host.whole_card("next", 1))
    host.cri.exit(running)
    assert card_of(host.kubelet.admit(host.whole_card("last", 1))["c0"]) == "/dev/nvidia1"


@pytest.mark.usefixtures("short_wait")
def test_a_container_that_is_long_in_the_making_keeps_its_card(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its image has gigabytes at a volume: containerd copies them before it lists it."""
    monkeypatch.setattr(recent_starts, "_SECONDS", 0.0)
    host.start_agent()
    pod, uid = _in_the_making(host, "gone")
    host.api.delete("pods", "gone")
    host.kubelet.remove(pod)
    host.wait_until(lambda: host.agent.pods.get(uid) is None)
    host.agent.recovery.free_ended()
    _is_taken(host)
    held = (IDLE, Use(cores=50, memory_units=32))
    host.wait_until(lambda: decode_node(KEYS, host.api.get("nodes", NODE)).uses == held)
    running = host.cri.run(uid, "c0")
    host.cri.exit(running)
    host.cri.stop_sandbox(uid)
    assert card_of(host.kubelet.admit(host.whole_card("next", 1))["c0"]) == "/dev/nvidia1"


@pytest.mark.usefixtures("short_wait")
def test_a_container_in_the_making_keeps_its_card_over_a_restart(host: Host) -> None:
    """The agent was restarted since PreStartContainer, for an upgrade for instance."""
    host.start_agent()
    pod, uid = _in_the_making(host, "gone")
    host.stop_agent()
    host.api.delete("pods", "gone")
    host.kubelet.remove(pod)
    host.start_agent()
    host.agent.recovery.free_ended()
    _is_taken(host)
    running = host.cri.run(uid, "c0")
    assert host.agent.records.get(uid) is not None
    host.cri.exit(running)
    host.cri.stop_sandbox(uid)
    assert card_of(host.kubelet.admit(host.whole_card("next", 1))["c0"]) == "/dev/nvidia1"


@pytest.mark.usefixtures("short_wait")
def test_a_container_in_the_making_keeps_its_failed_pods_card(host: Host) -> None:
    """The agent fails a pod for another of its containers."""
    host.start_agent()
    pod, uid = _in_the_making(host, "failed")
    host.end(pod, "Failed")
    host.wait_until(lambda: finished(host.agent.pods.get(uid) or {}))
    host.agent.recovery.free_ended()
    _is_taken(host)
    running = host.cri.run(uid, "c0")
    host.agent.recovery.free_ended()
    assert host.agent.records.get(uid) is not None
    host.cri.exit(running)
    host.cri.stop_sandbox(uid)
    assert card_of(host.kubelet.admit(host.whole_card("next", 1))["c0"]) == "/dev/nvidia1"


def test_a_start_while_the_api_server_is_asked_keeps_its_card(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    pod = host.share("gone", 1)
    uid = pod["metadata"]["uid"]
    host.kubelet.admit(pod)
    host.cri.make_sandbox(uid)
    pods, looked = host.agent.pods, threading.Event()
    is_gone = pods.is_gone

    def start_meanwhile(*asked: Any) -> bool:
        if not looked.is_set():
            host.kubelet.start_container(pod, "c0", CORE)
        looked.set()
        return is_gone(*asked)

    monkeypatch.setattr(pods, "is_gone", start_meanwhile)
    host.api.delete("pods", "gone")
    host.wait_until(looked.is_set)
    host.agent.recovery.free_ended()
    assert host.agent.records.get(uid) is not None


def test_a_container_that_starts_later_still_has_its_card_taken_again(host: Host) -> None:
    host.start_agent()
    pod = host.whole_card("gone", 1)
    answer = host.kubelet.admit(pod)["c0"]
    host.api.delete("pods", "gone")
    host.kubelet.remove(pod)
    host.wait_until(lambda: host.agent.records.get(pod["metadata"]["uid"]) is None)
    running = host.cri.run(pod["metadata"]["uid"], "c0", annotations=dict(answer.annotations))
    host.agent.audit.look()
    host.agent.audit.look()
    _is_given_when_it_ends(host, running)


def test_a_container_that_has_ended_keeps_no_card(host: Host) -> None:
    host.start_agent()
    pod = host.whole_card("gone", 1)
    answer = host.kubelet.admit(pod)["c0"]
    ended = host.cri.run(pod["metadata"]["uid"], "c0", annotations=answer.annotations)
    host.cri.exit(ended)
    host.stop_agent()
    host.api.delete("pods", "gone")
    (host.state / "checkpoint.json").unlink()
    host.start_agent()
    assert host.agent.records.all() == ()


@pytest.mark.usefixtures("short_wait")
def test_a_failed_pod_keeps_its_card_while_its_container_runs(host: Host) -> None:
    """As one that is evicted, or that the agent fails for another of its containers."""
    host.start_agent()
    pod = host.share("failed", 1)
    answer = host.kubelet.admit(pod)["c0"]
    running = host.cri.run(pod["metadata"]["uid"], "c0", annotations=answer.annotations)
    host.stop_agent()
    host.end(pod, "Failed")
    (host.state / "checkpoint.json").unlink()
    host.start_agent()
    _is_given_when_it_ends(host, running)


@pytest.mark.usefixtures("short_wait")
def test_a_container_in_an_unknown_state_keeps_its_card(host: Host) -> None:
    host.start_agent()
    pod = host.share("gone", 1)
    host.kubelet.admit(pod)
    running = host.cri.run(pod["metadata"]["uid"], "c0")
    host.cri.lose_state(running)
    host.api.delete("pods", "gone")
    _is_given_when_it_ends(host, running)


def test_the_node_says_what_an_ended_pod_holds(host: Host) -> None:
    """Else the extender would give its card to one pod after another, and each would fail here."""
    host.start_agent()
    pod = host.share("gone", 1)
    host.kubelet.admit(pod)
    running = host.cri.run(pod["metadata"]["uid"], "c0")
    host.api.delete("pods", "gone")

    def held() -> tuple[Use, ...]:
        return decode_node(KEYS, host.api.get("nodes", NODE)).uses

    host.wait_until(lambda: held() == (IDLE, Use(cores=50, memory_units=32)))
    host.cri.exit(running)
    host.wait_until(lambda: held() == (IDLE, IDLE))


def test_an_agent_that_starts_says_at_no_time_that_such_cards_are_free(host: Host) -> None:
    """A pod that the extender placed in that moment was refused here, and failed."""
    host.start_agent()
    pod = host.share("gone", 1)
    host.kubelet.admit(pod)
    host.cri.run(pod["metadata"]["uid"], "c0")
    host.api.delete("pods", "gone")
    host.stop_agent()
    begun = len(host.api.asked("PATCH", f"/nodes/{NODE}$"))
    host.start_agent()

    def said() -> list[str]:
        bodies = [each.body or {} for each in host.api.asked("PATCH", f"/nodes/{NODE}$")[begun:]]
        return [each["metadata"]["annotations"][KEYS.gpu_devices] for each in bodies]

    host.wait_until(lambda: any("held_cores" in each for each in said()))
    assert all("held_cores" in each for each in said())


def test_a_wait_in_vain_is_not_repeated_for_each_pod(host: Host) -> None:
    """The kubelet makes one call at a time: other users' pods would wait behind all of these."""
    host.start_agent()
    pod = host.whole_card("gone", 1)
    host.kubelet.admit(pod)
    running = host.cri.run(pod["metadata"]["uid"], "c0")
    host.api.delete("pods", "gone")
    began = time.monotonic()
    for number in range(4):
        refused = host.share(f"refused-{number}", 1)
        with pytest.raises(AdmissionError, match="are over and may still run here: 1"):
            host.kubelet.admit(refused)
        host.end(refused, "Failed")
    assert time.monotonic() - began < 15  # four waits take sixteen
    host.cri.exit(running)
    assert card_of(host.kubelet.admit(host.share("next", 1))["c0"]) == "/dev/nvidia1"
