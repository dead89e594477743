"""The audit: six views of each container say the same, or a metric names the reason."""

import contextlib
import dataclasses
import http.client
import pathlib
from collections.abc import Callable

import pytest

from gpustack.adapters import mapped
from gpustack.agent.audit.differences import DifferenceReason
from tests.agent.host import CORE, KEYS, MEMORY, Host, Pod, container, decision, make_pod
from tests.fakes.nvml import card


def _uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def _running(host: Host, pod: Pod) -> str:
    """Admit and start a pod of one container, all annotations written; return its ID."""
    host.kubelet.admit(pod)
    answer = host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: host.annotations(pod)[KEYS.gpu_assigned] == "true")
    _seen(host, pod, KEYS.gpu_assigned, "true")
    refreshed, record = host.agent.limits._refreshed, host.agent.records.get(_uid(pod))
    host.wait_until(lambda: refreshed.get(_uid(pod), (None,))[0] == record)
    return host.cri.run(_uid(pod), "c0", annotations=answer.annotations)


def _seen(host: Host, pod: Pod, key: str, value: str) -> None:
    def shows() -> bool:
        found = host.agent.pods.get(_uid(pod)) or {"metadata": {}}
        return (found["metadata"].get("annotations") or {}).get(key) == value

    host.wait_until(shows)


def _audit(host: Host) -> set[DifferenceReason]:
    """Look twice; return the reasons of what stands unmended."""
    host.wait_until(lambda: host.agent.recovery.is_whole)
    looks = host.agent.audit.looks
    host.agent.audit.look()
    host.agent.audit.look()
    assert host.agent.audit.looks == looks + 2
    return {DifferenceReason(name) for name, count in host.agent.audit.standing.items() if count}


def _mended(host: Host) -> dict[str, float]:
    return {name: count for name, count in host.agent.audit.mended.items() if count}


def test_a_node_in_order_shows_no_difference(host: Host) -> None:
    host.start_agent()
    _running(host, host.share("share", 1))  # the fake's card 0 has the UUID of none
    _running(host, host.whole_card("whole", 0))
    written = decision((1,), cores=20, memory=8)
    init = (container("i0", 20, 8),)
    waiting = make_pod("waiting", container("c0", 20, 8), init=init, annotations=written)
    host.kubelet.admit(host.create(waiting))
    assert _audit(host) == set()
    assert _mended(host) == {}


def test_changed_annotations_are_restored_after_two_looks(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    _running(host, pod)
    before = host.annotations(pod)
    changed = {KEYS.predicate_node: None, "tencent.com/predicate-gpu-idx-0": "0"}
    host.api.edit("pods", "p", {"metadata": {"annotations": changed}})
    _seen(host, pod, "tencent.com/predicate-gpu-idx-0", "0")
    host.agent.audit.look()
    assert host.agent.writes.pending == 0
    host.agent.audit.look()
    host.wait_until(lambda: host.annotations(pod) == before)
    assert _mended(host) == {"annotations": 1}


def test_what_differs_at_one_look_only_is_nothing(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    running = _running(host, pod)
    host.agent.records.remove(_uid(pod))
    host.agent.audit.look()
    host.cri.exit(running)
    host.agent.audit.look()
    assert _mended(host) == {}
    assert host.agent.records.get(_uid(pod)) is None


def test_a_running_container_without_a_record_is_taken_up(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    _running(host, pod)
    host.wait_until(lambda: host.agent.recovery.is_whole)
    host.agent.records.remove(_uid(pod))
    assert _audit(host) == set()
    assert _mended(host) == {"no-record": 1}
    record = host.agent.records.get(_uid(pod))
    assert record is not None
    assert record.containers[0].placement.minors == (1,)
    host.kubelet.start_container(pod, "c0", CORE)  # it may start again


def test_a_container_that_cannot_be_taken_up_is_reported(host: Host) -> None:
    """The kubelet doesn't hold its devices."""
    host.start_agent()
    pod = host.share("p", 1)
    _running(host, pod)
    host.wait_until(lambda: host.agent.recovery.is_whole)
    host.agent.records.remove(_uid(pod))
    host.kubelet.known[_uid(pod)].devices.clear()
    host.kubelet.write_checkpoint(pod)
    assert _audit(host) == {DifferenceReason.NO_RECORD}
    assert host.agent.records.get(_uid(pod)) is None


def test_other_devices_at_the_kubelet_are_reported(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    _running(host, pod)
    host.kubelet.known[_uid(pod)].devices["c0"][MEMORY] = ["another"]
    host.kubelet.write_checkpoint(pod)
    assert _audit(host) == {DifferenceReason.OTHER_DEVICES}


@pytest.mark.parametrize("agrees", [True, False])
def test_podresources_is_asked_where_the_checkpoint_is_lost(host: Host, agrees: bool) -> None:
    host.start_agent()
    init = (container("i0", 50, 32),)
    written = decision((1,), cores=50, memory=32)
    pod = host.create(make_pod("p", container("c0", 50, 32), init=init, annotations=written))
    _running(host, pod)
    host.cri.run(_uid(pod), "i0")
    if not agrees:
        host.kubelet.known[_uid(pod)].devices["c0"][MEMORY] = ["another"]
    (host.kubelet.root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    assert _audit(host) == (set() if agrees else {DifferenceReason.OTHER_DEVICES})


def test_a_running_container_whose_card_was_renumbered_is_reported(host: Host) -> None:
    host.start_agent()
    pod = host.whole_card("p", 1)
    _running(host, pod)
    moved = dataclasses.replace(card(1), minor=0), dataclasses.replace(card(0), minor=1)
    host.nvml.show(*moved)
    host.wait_until(lambda: host.agent.inventory.node.cards[0].uuid == card(1).uuid)
    assert DifferenceReason.RENUMBERED in _audit(host)


def test_a_container_with_the_answer_for_another_pod_is_reported(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    answer = host.kubelet.start_container(pod, "c0", CORE)
    host.wait_until(lambda: host.annotations(pod)[KEYS.gpu_assigned] == "true")
    _seen(host, pod, KEYS.gpu_assigned, "true")
    given = {**answer.annotations, KEYS.vcuda_pod_uid: "x", KEYS.vcuda_device: "/dev/nvidia0"}
    host.cri.run(_uid(pod), "c0", annotations=given)
    assert _audit(host) == {DifferenceReason.OTHER_POD, DifferenceReason.OTHER_CARDS}


def _widen(path: pathlib.Path) -> None:
    limits = mapped.read_limits(path)
    wider = dataclasses.replace(limits.devices[0], memory_bytes=1 << 40)
    mapped.publish_limits(path, dataclasses.replace(limits, devices=(wider,)))


def _zero(path: pathlib.Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    ("name", "damage"),
    [("limits", _widen), ("limits", pathlib.Path.unlink), ("ledger", pathlib.Path.unlink)],
)
def test_limits_and_ledgers_are_made_as_the_record_says(
    host: Host, name: str, damage: Callable[[pathlib.Path], None]
) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    _running(host, pod)
    damage(host.folder(pod, "c0") / name)
    assert _audit(host) == set()
    assert _mended(host) == {name: 1}
    assert mapped.read_limits(host.folder(pod, "c0") / "limits").devices[0].uuid == card(1).uuid


@pytest.mark.parametrize("name", ["limits", "ledger"])
def test_what_a_running_container_has_damaged_is_reported(host: Host, name: str) -> None:
    """Its processes go on with the file that they have mapped."""
    host.start_agent()
    pod = host.share("p", 1)
    running = _running(host, pod)
    _zero(host.folder(pod, "c0") / name)
    assert _audit(host) == {DifferenceReason(name)}
    host.cri.exit(running)
    assert _audit(host) == set()
    assert _mended(host) == {name: 1}


def test_no_view_that_is_silent_counts_as_agreement(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    _running(host, pod)
    host.kubelet.known[_uid(pod)].devices["c0"][MEMORY] = ["another"]
    host.kubelet.write_checkpoint(pod)
    assert _audit(host) == {DifferenceReason.OTHER_DEVICES}
    looks = host.agent.audit.looks
    host.cri.stop()
    host.agent.audit.look()
    assert host.agent.audit.looks == looks
    assert host.agent.audit.standing["other-devices"] == 1


def test_the_metric_has_each_reason(host: Host) -> None:
    host.start_agent()
    asker = http.client.HTTPConnection("127.0.0.1", host.agent.web.ports[0], timeout=10)
    with contextlib.closing(asker):
        asker.request("GET", "/metrics")
        text = asker.getresponse().read().decode()
    for reason in DifferenceReason:
        assert f'gpustack_audit_differences{{reason="{reason.value}"}} 0.0' in text
        assert f'gpustack_audit_mended_total{{reason="{reason.value}"}} 0.0' in text
