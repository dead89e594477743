"""From PreStartContainer to the pod's end, through restarts of the agent and of the kubelet."""

import hashlib
import json
import threading

import pytest

from gpustack.adapters import mapped
from gpustack.agent.containers.allocation_records import Source
from tests.agent.host import CORE, KEYS, MEMORY, Host, Pod, card_of, container, make_pod
from tests.fakes.kubelet import AdmissionError


def _uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def test_a_verified_pod_is_told_that_its_cards_are_assigned(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    assert host.annotations(pod)[KEYS.gpu_assigned] == "false"
    host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: host.annotations(pod)[KEYS.gpu_assigned] == "true")
    patch = host.api.asked("PATCH", "/pods/p/status")[-1]
    assert patch.body["metadata"]["uid"] == _uid(pod)


def test_a_pod_is_assigned_only_when_all_of_its_containers_are_verified(host: Host) -> None:
    host.start_agent()
    pod = host.create(make_pod("p", container("c0", 50, 32), container("c1", 40, 32)))
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    record = host.agent.records.get(_uid(pod))
    assert record is not None
    assert not record.verified
    host.kubelet.start_container(pod, "c1", CORE)
    host.wait_until(lambda: host.annotations(pod).get(KEYS.gpu_assigned) == "true")


def test_devices_that_the_kubelet_gave_another_pod_stop_the_start(host: Host) -> None:
    host.start_agent()
    one, other = host.share("one", 0), host.share("other", 1)
    host.kubelet.admit(one)
    host.kubelet.admit(other)
    host.kubelet.swap(one, other)
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(one, "c0", CORE)
    assert host.agent.refusals.mismatches == 1


def test_a_start_with_devices_that_no_record_has_is_refused(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    host.agent.records.remove(_uid(pod))
    with pytest.raises(AdmissionError, match="NotAllocated"):
        host.kubelet.start_container(pod, "c0", CORE)


def test_limits_that_were_damaged_before_the_start_are_written_again(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    limits = host.folder(pod, "c0") / "limits"
    written = mapped.read_limits(limits)
    limits.unlink()
    host.kubelet.start_container(pod, "c0", CORE)
    assert mapped.read_limits(limits) == written


def test_no_call_of_the_kubelet_waits_for_a_write_to_the_api_server(host: Host) -> None:
    host.start_agent()
    held = host.api.faults.hold("PATCH", "/pods/p/status")
    pod = host.create(make_pod("p", container("c0", 50, 32)))
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    assert KEYS.gpu_assigned not in host.annotations(pod)
    assert held.gate is not None
    held.gate.set()
    host.wait_until(lambda: host.annotations(pod).get(KEYS.gpu_assigned) == "true")


def test_a_write_that_failed_is_made_again_and_one_to_a_dead_pod_is_not(host: Host) -> None:
    host.start_agent()
    host.api.faults.fail("PATCH", "/pods/p/status", status=500, times=2)
    pod = host.share()
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: host.annotations(pod)[KEYS.gpu_assigned] == "true")
    host.agent.writes.annotate(uid="x", namespace="default", name="gone", annotations={"a": "b"})
    host.wait_until(lambda: host.agent.writes.pending == 0)
    host.wait_until(lambda: len(host.api.asked("PATCH", "/pods/gone/status")) == 1)


def test_the_cards_of_an_ended_pod_are_free_once_its_containers_are_gone(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    running = host.cri.run(_uid(pod), "c0")
    host.end(pod)
    host.agent.recovery.free_ended()
    assert host.agent.records.get(_uid(pod)) is not None
    host.cri.exit(running)
    host.api.edit("pods", "p", {"metadata": {"labels": {"any": "change"}}})
    host.wait_until(lambda: host.agent.records.get(_uid(pod)) is None)
    host.wait_until(lambda: not host.folder(pod, "c0").exists())


def test_a_deleted_pod_frees_its_cards_for_the_next(host: Host) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("one", 1))
    host.api.delete("pods", "one")
    big = host.whole_card()
    assert card_of(host.kubelet.admit(big)["c0"]) == "/dev/nvidia1"


def test_a_pod_deleted_by_force_keeps_its_cards_until_its_container_stops(host: Host) -> None:
    host.start_agent()
    pod = host.share("one", 1)
    host.kubelet.admit(pod)
    running = host.cri.run(_uid(pod), "c0")
    host.api.delete("pods", "one")
    big = host.whole_card()
    end = threading.Timer(0.5, lambda: host.cri.exit(running))
    end.start()
    assert card_of(host.kubelet.admit(big)["c0"]) == "/dev/nvidia1"
    assert end.finished.is_set()
    end.join()


def test_a_restarted_agent_remembers_and_frees_nothing_that_runs(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    host.cri.run(_uid(pod), "c0")
    before = host.agent.records.get(_uid(pod))
    host.stop_agent()
    host.kubelet.forget(pod)
    host.start_agent()
    after = host.agent.records.get(_uid(pod))
    assert before is not None
    assert after is not None
    assert after.placement == before.placement
    assert after.verified


def test_a_pod_that_ended_while_the_agent_was_away_is_freed(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    host.stop_agent()
    host.api.delete("pods", "p")
    host.start_agent()
    assert host.agent.records.all() == ()
    host.wait_until(lambda: not host.folder(pod, "c0").exists())


_STRANGE = json.dumps(
    {"version": 1, "checksum": f"sha256:{hashlib.sha256(b'{}').hexdigest()}", "data": {}}
)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "{",
        "[" * 100_000,
        '{"version": 1, "checksum": "x", "data": {}}',
        '{"version": 99, "checksum": "x", "data": {}}',
        _STRANGE,
    ],
    ids=["gone", "empty", "torn", "nested", "edited", "of a later version", "of another layout"],
)
def test_a_lost_or_broken_checkpoint_is_rebuilt_from_running_containers(
    host: Host, content: str | None
) -> None:
    host.start_agent()
    pod = host.share()
    response = host.kubelet.admit(pod)["c0"]
    host.cri.run(_uid(pod), "c0", annotations=response.annotations)
    before = host.agent.records.get(_uid(pod))
    host.stop_agent()
    checkpoint = host.state / "checkpoint.json"
    checkpoint.unlink()
    if content is not None:
        checkpoint.write_text(content)
    host.start_agent()
    record = host.agent.records.get(_uid(pod))
    assert before is not None
    assert record is not None
    assert record.placement == before.placement
    assert record.source is Source.RECOVERED
    assert set(record.containers[0].core_ids) == set(before.containers[0].core_ids)


def test_a_running_pod_with_a_bad_user_key_is_restored(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    response = host.kubelet.admit(pod)["c0"]
    host.cri.run(_uid(pod), "c0", annotations=response.annotations)
    before = host.agent.records.get(_uid(pod))
    host.stop_agent()
    (host.state / "checkpoint.json").unlink()
    host.api.edit("pods", "p", {"metadata": {"annotations": {"tencent.com/gpu-model": ","}}})
    host.start_agent()
    record = host.agent.records.get(_uid(pod))
    assert before is not None
    assert record is not None
    assert record.placement == before.placement


def test_a_crashed_container_starts_again_once_the_kubelet_answers(host: Host) -> None:
    host.start_agent()
    running, crashed = host.share("running", 0), host.share("crashed", 1)
    response = host.kubelet.admit(running)["c0"]
    host.kubelet.admit(crashed)
    host.cri.run(_uid(running), "c0", annotations=response.annotations)
    host.stop_agent()
    (host.state / "checkpoint.json").unlink()
    (host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    host.kubelet.answers = False
    host.start_agent()
    assert [record.uid for record in host.agent.records.all()] == [_uid(running)]
    host.kubelet.answers = True
    host.api.edit("pods", "crashed", {"metadata": {"labels": {"any": "change"}}})
    host.wait_until(lambda: host.agent.recovery.is_whole)
    for pod in (running, crashed):
        host.kubelet.start_container(pod, "c0", CORE)


def test_the_kubelets_checkpoint_is_restored_while_its_socket_is_silent(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    host.stop_agent()
    (host.state / "checkpoint.json").unlink()
    host.kubelet.answers = False
    host.start_agent()
    assert host.agent.recovery.is_whole
    assert card_of(host.kubelet.start_container(pod, "c0", CORE)) == "/dev/nvidia1"


def test_a_restarted_agent_writes_the_missing_assigned_annotation(host: Host) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    held = host.api.faults.fail("PATCH", "/pods/p/status", status=503, times=1000)
    host.kubelet.start_container(pod, "c0", CORE)
    host.stop_agent()
    held.times = 0
    host.start_agent()
    host.wait_until(lambda: host.annotations(pod)[KEYS.gpu_assigned] == "true")


def test_plugins_register_again_after_a_kubelet_restart(host: Host) -> None:
    host.start_agent()
    host.kubelet.restart()
    host.kubelet.wait_for_plugins(CORE, MEMORY)
    assert host.kubelet.registrations == 4
    host.wait_until(lambda: host.agent.registrar.ready)


def test_plugins_register_again_when_the_kubelet_closes_the_connection(host: Host) -> None:
    host.start_agent()
    old = dict(host.kubelet.plugins)
    for plugin in old.values():
        plugin.close()
    host.kubelet.wait_for(lambda: host.kubelet.registrations == 4)
    host.kubelet.wait_for_plugins(CORE, MEMORY)
    assert host.kubelet.plugins[CORE] is not old[CORE]


def test_an_agent_that_starts_before_the_kubelet_registers_when_it_comes(host: Host) -> None:
    host.kubelet.stop()
    (host.kubelet.root / "device-plugins" / "kubelet.sock").unlink(missing_ok=True)
    host.start_agent(registered=False)
    assert host.agent.condition.unready() == ["the kubelet does not watch both device plugins"]
    host.kubelet.start()
    host.kubelet.wait_for_plugins(CORE, MEMORY)
