"""`on_violation: kill`: the pod of a container that goes past its limits is deleted, by name."""

from gpustack.wire.pods import holding, leaving
from tests.agent.host import CORE, KEYS, Host, Pod


def damage(host: Host, pod: Pod) -> str:
    """Start a pod's container, and let it write zeroes over its ledger; returns its ID."""
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    running = host.cri.run(pod["metadata"]["uid"], "c0")
    ledger = host.folder(pod, "c0") / "ledger"
    ledger.write_bytes(bytes(ledger.stat().st_size))
    return running


def test_a_pod_that_damages_its_ledger_is_deleted_without_its_grace(host: Host) -> None:
    host.configuration["on_violation"] = "kill"
    host.start_agent()
    pod = host.share("taker")
    host.share("neighbour", minor=0)
    damage(host, pod)
    host.wait_until(lambda: _is_deleted(host, "taker"))
    wanted = {"gracePeriodSeconds": 1, "preconditions": {"uid": pod["metadata"]["uid"]}}
    assert host.api.asked("DELETE", "/pods/taker$")[0].body == wanted
    host.wait_until(lambda: bool(host.api.events()))
    assert host.api.events()[0]["reason"] == "LedgerDamaged"
    assert not _is_deleted(host, "neighbour")


def test_a_killed_pod_holds_its_card_until_it_has_ended(host: Host) -> None:
    """Failed, it was out of the books at once: the next pod came, and failed at Allocate.

    Under load, where a container's end takes longer than an Allocate waits.
    """
    host.configuration["on_violation"] = "kill"
    host.start_agent()
    pod = host.share("taker")
    damage(host, pod)
    host.wait_until(lambda: _is_deleted(host, "taker"))
    held = holding(KEYS, host.api.get("pods", "taker"))
    assert held is not None
    assert held.uid == pod["metadata"]["uid"]


def test_a_static_pod_is_reported_and_runs_on(host: Host) -> None:
    """The kubelet makes its mirror anew, and it runs on."""
    host.configuration["on_violation"] = "kill"
    host.start_agent()
    mirror, static = host.static_pod("taker")
    damage(host, static)
    host.wait_until(lambda: bool(host.api.events()))
    assert host.agent.writes.pending == 0
    assert not _is_deleted(host, mirror["metadata"]["name"])


def test_a_pod_is_only_reported_where_kill_is_not_asked_for(host: Host) -> None:
    host.start_agent()
    damage(host, host.share("taker"))
    host.wait_until(lambda: bool(host.api.events()))
    assert not _is_deleted(host, "taker")


def _is_deleted(host: Host, name: str) -> bool:
    return leaving(host.api.get("pods", name))
