"""A pod with the name of an earlier one, as a StatefulSet's has, is told from that by its UID.

The kubelet's PodResources and its Allocate name no UID. Our watch may lag behind the kubelet's, or
run ahead of it, and then a name means one pod to us and another one to the kubelet.
"""

import base64
import json
import os
import pathlib

import pytest

from gpustack.agent.identification.runtime import Held
from tests.agent.host import CORE, MEMORY, Host, Pod, card_of, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError

_DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:01Z"}}


def _uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def _run(host: Host, pod: Pod) -> str:
    """Admit and start a pod of one container; return the container's ID."""
    host.kubelet.admit(pod)
    answer = host.kubelet.start_container(pod, "c0", CORE)
    return host.cri.run(_uid(pod), "c0", annotations=answer.annotations)


def _restart(host: Host, what: str) -> None:
    if what == "agent":
        host.stop_agent()
        host.start_agent()
    else:
        host.kubelet.restart()
        host.kubelet.wait_for_plugins(CORE, MEMORY)


def _is_leaving(host: Host, pod: Pod) -> bool:
    seen = host.agent.pods.get(_uid(pod))
    return seen is not None and "deletionTimestamp" in seen["metadata"]


def _replace(host: Host, old: Pod, new: Pod, *, by_force: bool = False) -> Pod:
    """Delete a pod and make the next one of its name; our watch shows the deletion at most."""
    name = old["metadata"]["name"]
    if not by_force:
        host.api.edit("pods", name, _DELETED)
        host.wait_until(lambda: _is_leaving(host, old))
    host.api.hold_watches()
    host.api.delete("pods", name)
    return host.create(new)


def _next(name: str, *minors: int) -> Pod:
    """Return another pod of this name, with a container for each card."""
    written = decision(*((minor,) for minor in minors), cores=50, memory=32)
    containers = (container(f"c{index}", 50, 32) for index in range(len(minors)))
    pod = make_pod(name, *containers, annotations=written)
    pod["metadata"]["uid"] = f"uid-next-{name}"
    return pod


def _replaced_after_a_restart(
    host: Host, what: str = "agent", *, by_force: bool = True
) -> tuple[Pod, Pod]:
    """A pod that ran before a restart and is gone, and the next one of its name."""
    host.start_agent()
    old = host.share("web-0", 1)
    running = _run(host, old)
    _restart(host, what)
    host.cri.exit(running)
    new = _replace(host, old, _next("web-0", 0), by_force=by_force)
    host.kubelet.remove(old)
    return old, new


@pytest.mark.parametrize("by_force", [False, True])
@pytest.mark.parametrize("what", ["agent", "kubelet"])
def test_the_next_pod_of_a_name_shares_no_card_after_a_restart(
    host: Host, what: str, by_force: bool
) -> None:
    _, new = _replaced_after_a_restart(host, what, by_force=by_force)
    answer = host.kubelet.admit(new)["c0"]
    host.kubelet.start_container(new, "c0", CORE)
    host.cri.run(_uid(new), "c0", annotations=answer.annotations)
    host.api.release_watches()
    whole = card_of(host.kubelet.admit(host.whole_card("big", 1))["c0"])
    assert card_of(answer) != whole
    assert host.agent.records.get(_uid(new)) is not None


def test_a_pod_that_ends_while_the_agent_looks_is_not_taken_for_the_next(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = _replaced_after_a_restart(host)
    devices, waiting = host.agent.kubelet.devices, [old]

    def devices_after_the_end(pods: tuple[Pod, ...], deadline: float | None = None) -> Held | None:
        while waiting:
            waiting.pop()
            host.api.release_watches()
            host.wait_until(lambda: host.agent.records.get(_uid(old)) is None)
        return devices(pods, deadline)

    monkeypatch.setattr(host.agent.kubelet, "devices", devices_after_the_end)
    assert card_of(host.kubelet.admit(new)["c0"]) == "/dev/nvidia0"
    assert host.agent.records.get(_uid(old)) is None


def test_a_pod_that_really_goes_may_still_be_admitted(host: Host) -> None:
    host.start_agent()
    pod = host.share("web-0", 1)
    host.api.edit("pods", "web-0", _DELETED)
    host.wait_until(lambda: _is_leaving(host, pod))
    assert card_of(host.kubelet.admit(pod)["c0"]) == "/dev/nvidia1"


def test_a_pod_that_goes_is_not_taken_while_the_api_server_is_away(host: Host) -> None:
    host.start_agent()
    pod = host.share("web-0", 1)
    host.api.edit("pods", "web-0", _DELETED)
    host.wait_until(lambda: _is_leaving(host, pod))
    host.api.faults.fail("GET", "/api/v1/pods", status=503, times=10)
    with pytest.raises(AdmissionError, match=r"ApiServerAway: .*default/web-0"):
        host.kubelet.admit(pod)


def _given_the_old_ones_answer(host: Host) -> tuple[Pod, Pod]:
    """A pod that was admitted as the one before it: the API server couldn't tell them apart."""
    old, new = _replaced_after_a_restart(host)
    away = host.api.faults.fail("GET", "/api/v1/", status=503, times=1000)
    assert card_of(host.kubelet.admit(new)["c0"]) == "/dev/nvidia1"
    away.times = 0
    return old, new


def test_a_container_starts_only_with_a_record_of_its_pod(host: Host) -> None:
    old, new = _given_the_old_ones_answer(host)
    away = host.api.faults.fail("GET", "/api/v1/", status=503, times=1000)
    by_its_uid = f"PairingMismatch: .*the pod with UID {old['metadata']['uid']} for another$"
    with pytest.raises(AdmissionError, match=by_its_uid):
        host.kubelet.start_container(new, "c0", CORE)
    assert host.agent.refusals.mismatches == 1
    assert host.agent.writes.pending == 0, "the agent has not seen that pod yet"
    away.times = 0
    with pytest.raises(AdmissionError, match="the pod is failed"):  # the kubelet tries again
        host.kubelet.start_container(new, "c0", CORE)
    host.wait_until(lambda: host.is_failed(new))


@pytest.mark.parametrize("written", [None, "", "{", '{"Data": {}}', " " * (17 << 20)])
def test_the_api_server_tells_pods_apart_without_the_kubelets_checkpoint(
    host: Host, written: str | None
) -> None:
    _, new = _given_the_old_ones_answer(host)
    file = _checkpoint(host)
    file.unlink()
    if written is not None:
        file.write_text(written)
    with pytest.raises(AdmissionError, match="PairingMismatch"):
        host.kubelet.start_container(new, "c0", CORE)


def test_a_fifo_in_place_of_the_kubelets_checkpoint_delays_no_start(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    _checkpoint(host).unlink()
    os.mkfifo(_checkpoint(host))
    host.kubelet.start_container(pod, "c0", CORE)


def test_a_start_needs_the_kubelets_checkpoint_or_the_api_server(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    _checkpoint(host).unlink()
    away = host.api.faults.fail("GET", "/api/v1/", status=503, times=1000)
    with pytest.raises(AdmissionError, match=r"PairingUnproven: .*kubelet_internal_checkpoint"):
        host.kubelet.start_container(pod, "c0", CORE)
    away.times = 0
    host.kubelet.start_container(pod, "c0", CORE)
    assert not host.is_failed(pod)


def test_an_api_server_that_has_just_started_fails_no_pod(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    _checkpoint(host).unlink()
    # The node authorizer of a server that has just started has yet to read the pods of each node.
    new = host.api.faults.fail("GET", "/api/v1/namespaces/", status=403, times=1000)
    with pytest.raises(AdmissionError, match=r"PairingUnproven: .*403"):
        host.kubelet.start_container(pod, "c0", CORE)
    new.times = 0
    host.kubelet.start_container(pod, "c0", CORE)
    assert not host.is_failed(pod)


def test_a_start_is_proven_without_any_socket(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    host.kubelet.answers = False
    host.api.faults.fail("GET", "/api/v1/", status=503, times=1000)
    asked = host.kubelet.calls
    host.kubelet.start_container(pod, "c0", CORE)
    assert host.kubelet.calls == asked


def test_checkpoint_entries_of_other_plugins_are_ignored(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    file = _checkpoint(host)
    content = json.loads(file.read_text())
    foreign = {"PodUID": "x", "ContainerName": "c", "ResourceName": "example.com/x"}
    broken = base64.b64encode(b"\xff").decode()  # no message begins like this
    content["Data"]["PodDeviceEntries"].append({**foreign, "DeviceIDs": None, "AllocResp": broken})
    file.write_text(json.dumps(content))
    host.api.faults.fail("GET", "/api/v1/", status=503, times=1000)
    host.kubelet.start_container(pod, "c0", CORE)


def test_devices_of_a_replaced_pod_are_not_those_of_the_next_of_its_name(host: Host) -> None:
    host.start_agent()
    old = host.share("web-0", 1)
    _run(host, old)
    # The kubelet is busy with another pod and hasn't heard yet that this one was replaced.
    host.api.delete("pods", "web-0")
    new = host.create(_next("web-0", 0, 0))
    host.wait_until(lambda: host.agent.pods.get(_uid(new)) is not None)
    other = host.share("other", 1, now_ns=2)
    assert card_of(host.kubelet.admit(other)["c0"]) == "/dev/nvidia1"
    assert host.agent.records.get(_uid(new)) is None


def test_an_agent_that_starts_adopts_no_devices_of_the_pod_before(host: Host) -> None:
    host.start_agent()
    old = host.share("web-0", 1)
    _run(host, old)
    host.stop_agent()
    host.api.delete("pods", "web-0")
    new = host.create(_next("web-0", 0))
    host.start_agent()
    assert host.agent.pods.get(_uid(new)) is not None
    assert host.agent.records.get(_uid(new)) is None
    host.kubelet.remove(old)
    assert card_of(host.kubelet.admit(new)["c0"]) == "/dev/nvidia0"
    host.kubelet.start_container(new, "c0", CORE)


def _checkpoint(host: Host) -> pathlib.Path:
    return host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint"
