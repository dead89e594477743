"""An agent that starts asks a slow API server no longer than systemd waits for it."""

import dataclasses
import threading
import time
import types

import pytest

from gpustack.agent.cluster.pods import PodView
from gpustack.agent.containers import recovery
from gpustack.model.use import Use
from gpustack.wire.nodes import decode_node
from tests.agent.host import KEYS, NODE, Host

PODS = 100


def test_pods_that_run_on_after_their_end_keep_no_agent_from_starting(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("p", 1))
    (record,) = host.agent.records.all()
    for number in range(PODS):
        uid = f"uid-gone-{number}"
        host.agent.records.put(dataclasses.replace(record, uid=uid))
        host.cri.run(uid, "c0")
    host.stop_agent()
    starter, late = threading.current_thread(), 0.0

    def is_gone(_: PodView, uid: str, name: tuple[str, str], seconds: float) -> bool:
        nonlocal late
        if threading.current_thread() is starter:
            late += seconds
        return True

    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + late)
    monkeypatch.setattr(recovery, "time", clock)
    monkeypatch.setattr(PodView, "is_gone", is_gone)
    host.start_agent()
    assert 0 < late < 20
    # It says what they hold as soon as it knows.
    held = Use(cores=PODS * 50, memory_units=PODS * 32)
    host.wait_until(lambda: decode_node(KEYS, host.api.get("nodes", NODE)).uses[1] == held)
