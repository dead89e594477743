"""An agent that starts asks a slow API server no longer than systemd waits for it."""

import dataclasses
import threading
import time
import types

import pytest

from gpustack.adapters.kube import KubeError
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.containers import recovery
from gpustack.model.use import Use
from gpustack.wire.nodes import decode_node
from tests.agent.host import KEYS, NODE, Host

PODS = 100


def leave_records(host: Host) -> list[str]:
    """Stop an agent that has the records of many pods that the API server lacks; return them."""
    host.start_agent()
    host.kubelet.admit(host.share("p", 1))
    (record,) = host.agent.records.all()
    uids = [f"uid-gone-{number}" for number in range(PODS)]
    for uid in uids:
        host.agent.records.put(dataclasses.replace(record, uid=uid))
    host.stop_agent()
    return uids


def start_slowly(
    host: Host, monkeypatch: pytest.MonkeyPatch, refusal: KubeError | None = None
) -> float:
    """Start it while each question takes as long as it may; return the seconds that it waited."""
    starter, late = threading.current_thread(), 0.0

    def is_gone(_: PodView, uid: str, name: tuple[str, str], seconds: float) -> bool:
        nonlocal late
        if threading.current_thread() is starter:
            late += seconds
        if refusal is not None:
            raise refusal
        return True

    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + late)
    monkeypatch.setattr(recovery, "time", clock)
    monkeypatch.setattr(PodView, "is_gone", is_gone)
    host.start_agent()
    return late


def test_an_agent_that_starts_asks_a_slow_api_server_for_a_bounded_time(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_records(host)
    refusal = KubeError(500, "InternalError", "etcd is slow")
    assert 0 < start_slowly(host, monkeypatch, refusal) < 20


def test_pods_that_run_on_after_their_end_keep_no_agent_from_starting(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for uid in leave_records(host):
        host.cri.run(uid, "c0")
    assert 0 < start_slowly(host, monkeypatch) < 20
    # It says what they hold as soon as it knows.
    held = Use(cores=PODS * 50, memory_units=PODS * 32)
    host.wait_until(lambda: decode_node(KEYS, host.api.get("nodes", NODE)).uses[1] == held)
