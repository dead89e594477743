"""A static pod: its kubelet and the API server know it by two UIDs, and no scheduler decides it."""

from typing import Any

import pytest

from gpustack.adapters.kube import KubeClient
from tests.agent.host import (
    CORE,
    KEYS,
    MEMORY,
    STATIC_UID,
    Host,
    card_of,
    decision,
)
from tests.fakes.kubelet import AdmissionError


def _events(host: Host) -> list[Any]:
    client = KubeClient.from_kubeconfig(host.settings().kubeconfig)
    return list(client.get("/api/v1/namespaces/default/events")["items"])


def test_a_static_pod_with_a_decision_gets_its_card_and_starts(host: Host) -> None:
    host.start_agent()
    _, static = host.static_pod()
    assert card_of(host.kubelet.admit(static)["c0"]) == "/dev/nvidia1"
    answer = host.kubelet.start_container(static, "c0", CORE)
    assert answer.annotations[KEYS.vcuda_pod_uid] == STATIC_UID
    assert (host.folder(static, "c0") / "limits").exists()
    record = host.agent.records.get(STATIC_UID)
    assert record is not None
    assert record.verified


def test_no_annotation_of_a_mirror_is_written(host: Host) -> None:
    """The admission policy lets no node write decisions about its own static pods."""
    host.start_agent()
    mirror, static = host.static_pod()
    host.kubelet.admit(static)
    host.kubelet.start_container(static, "c0", CORE)
    assert host.agent.writes.pending == 0
    assert host.annotations(mirror)[KEYS.gpu_assigned] == "false"


def test_an_undecided_static_pod_is_refused_by_an_event_on_its_mirror(host: Host) -> None:
    host.start_agent()
    _, static = host.static_pod(decided=False)
    with pytest.raises(AdmissionError, match=r"Undecided: pod default/p: a static pod gets no ca"):
        host.kubelet.admit(static)
    host.wait_until(lambda: bool(_events(host)))
    (event,) = _events(host)
    assert (event["reason"], event["type"]) == ("Undecided", "Warning")
    assert event["involvedObject"]["name"] == "p"
    assert event["involvedObject"]["uid"] == STATIC_UID, "kubectl describe looks for this one"


def test_a_hash_that_the_api_server_could_have_made_is_refused(host: Host) -> None:
    """A mirror made by hand would stand for another pod by it."""
    host.start_agent()
    victim = host.share("victim", 1)
    _, static = host.static_pod("forged", uid=victim["metadata"]["uid"])
    with pytest.raises(AdmissionError, match=r"Undecided: pod default/forged: .*metadata\.uid"):
        host.kubelet.admit(static)
    shown = host.agent.pods.get(victim["metadata"]["uid"])
    assert shown is not None
    assert shown["metadata"]["name"] == "victim"


def test_a_static_pod_keeps_its_cards_while_its_mirror_is_made_anew(host: Host) -> None:
    host.start_agent()
    mirror, static = host.static_pod()
    host.kubelet.admit(static)
    answer = host.kubelet.start_container(static, "c0", CORE)
    running = host.cri.run(STATIC_UID, "c0", annotations=answer.annotations)
    host.api.delete("pods", "p")
    host.wait_until(lambda: host.agent.pods.get(STATIC_UID) is None)
    host.agent.recovery.free_ended()
    assert host.agent.records.get(STATIC_UID) is not None
    host.api.create("pods", {**mirror, "metadata": {**mirror["metadata"], "uid": "uid-again"}})
    host.wait_until(lambda: host.agent.pods.get(STATIC_UID) is not None)
    host.cri.exit(running)
    host.kubelet.start_container(static, "c0", CORE)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_static_pod_that_has_ended_frees_its_card(host: Host, phase: str) -> None:
    host.start_agent()
    mirror, static = host.static_pod()
    host.kubelet.admit(static)
    ran = {"phase": phase, "containerStatuses": [{"name": "c0", "state": {"terminated": {}}}]}
    host.api.edit("pods", mirror["metadata"]["name"], {"status": ran})
    host.wait_until(lambda: host.agent.records.get(STATIC_UID) is None)


def test_a_static_pods_record_is_restored_from_the_kubelets_checkpoint(host: Host) -> None:
    host.start_agent()
    _, static = host.static_pod()
    host.kubelet.admit(static)
    host.stop_agent()
    (host.state / "checkpoint.json").unlink()
    host.start_agent()
    host.wait_until(lambda: host.agent.records.get(STATIC_UID) is not None)
    assert card_of(host.kubelet.start_container(static, "c0", CORE)) == "/dev/nvidia1"


def test_a_static_pod_of_another_answer_does_not_start_and_is_not_failed(host: Host) -> None:
    host.start_agent()
    mirror, static = host.static_pod()
    answer = host.kubelet.admit(static)["c0"]
    answer.annotations[KEYS.vcuda_pod_uid] = "another"
    host.kubelet.write_checkpoint(static)
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(static, "c0", CORE)
    assert host.agent.writes.pending == 0
    assert not host.is_failed(mirror)


def test_a_decided_static_pod_is_admitted_by_the_next_kubelet(host: Host) -> None:
    host.start_agent()
    _, static = host.static_pod()
    host.kubelet.admit(static)
    host.kubelet.forget(static)
    host.kubelet.restart()
    host.kubelet.wait_for_plugins(CORE, MEMORY)
    assert card_of(host.kubelet.admit(static)["c0"]) == "/dev/nvidia1"


def test_a_static_pod_without_a_mirror_is_named(host: Host) -> None:
    """A kubelet makes the mirror after it has admitted the pod, and of all pods at its start."""
    host.start_agent()
    mirror, static = host.static_pod()
    host.api.delete("pods", mirror["metadata"]["name"])
    with pytest.raises(AdmissionError, match=r"NoCandidate: .*doesn't show default/p, which"):
        host.kubelet.admit(static)


def test_the_next_kubelet_admits_a_static_pod_that_was_decided_since(host: Host) -> None:
    """Its mirror says Failed until the kubelet has admitted it."""
    host.start_agent()
    mirror, static = host.static_pod(decided=False)
    with pytest.raises(AdmissionError, match="Undecided"):
        host.kubelet.admit(static)
    host.end(mirror, "Failed")
    written = {**mirror["metadata"]["annotations"], **decision((1,), cores=50, memory=32)}
    host.api.edit("pods", "p", {"metadata": {"annotations": written}})
    host.kubelet.forget(static)
    host.kubelet.restart()
    host.kubelet.wait_for_plugins(CORE, MEMORY)
    assert card_of(host.kubelet.admit(static)["c0"]) == "/dev/nvidia1"
    assert host.kubelet.start_container(static, "c0", CORE)
