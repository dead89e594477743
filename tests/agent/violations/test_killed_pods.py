"""`on_violation: kill`: the pod of a container that goes past its limits fails, by its name."""

from typing import Any

from tests.agent.host import CORE, Host, Pod


def damage(host: Host, pod: Pod) -> str:
    """Start a pod's container, and let it write zeroes over its ledger; returns its ID."""
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    running = host.cri.run(pod["metadata"]["uid"], "c0")
    ledger = host.folder(pod, "c0") / "ledger"
    ledger.write_bytes(bytes(ledger.stat().st_size))
    return running


def test_a_pod_that_damages_its_ledger_fails_with_the_events_words(host: Host) -> None:
    host.configuration["on_violation"] = "kill"
    host.start_agent()
    pod, neighbour = host.share("taker"), host.share("neighbour", minor=0)
    damage(host, pod)
    host.wait_until(lambda: _written(host) is not None)
    status = _written(host)
    assert status is not None
    assert status["phase"] == "Failed"
    assert status["reason"] == "LedgerDamaged"
    assert status["message"].startswith("container c0: its ledger can't be read")
    assert "conditions" not in status, "a Job that ignores disruptions would make it anew for ever"
    assert not host.is_failed(neighbour)


def test_a_killed_pod_gets_none_of_the_grace_it_asks_for(host: Host) -> None:
    """It counted in no quota any more, and ran on with its card for years."""
    host.configuration["on_violation"] = "kill"
    host.start_agent()
    pod = host.share("taker")
    damage(host, pod)
    host.wait_until(lambda: bool(host.api.asked("DELETE", "/pods/taker$")))
    wanted = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
    assert host.api.asked("DELETE", "/pods/taker$")[0].body == wanted
    assert _written(host) is not None, "first its reason"


def test_a_static_pod_is_reported_and_runs_on(host: Host) -> None:
    """The kubelet doesn't read the status of its mirror, which would only look failed."""
    host.configuration["on_violation"] = "kill"
    host.start_agent()
    mirror, static = host.static_pod("taker")
    damage(host, static)
    host.wait_until(lambda: bool(host.api.events()))
    assert host.agent.writes.pending == 0
    assert not host.is_failed(mirror)


def test_a_pod_is_only_reported_where_kill_is_not_asked_for(host: Host) -> None:
    host.start_agent()
    pod = host.share("taker")
    damage(host, pod)
    host.wait_until(lambda: bool(host.api.events()))
    assert not host.is_failed(pod)


def _written(host: Host) -> dict[str, Any] | None:
    """Return the failure that the agent has written on the taker."""
    bodies = [each.body or {} for each in host.api.asked("PATCH", "/pods/taker/status$")]
    return next((each["status"] for each in bodies if "status" in each), None)
