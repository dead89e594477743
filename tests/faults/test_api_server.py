"""The API server goes away, comes back, forgets, is slow, or others write to it as well."""

import contextlib
import json
import os
import pathlib
import signal
import threading
import time
import urllib.request

import pytest

from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable
from tests.control_plane import plane, processes
from tests.faults import load
from tests.faults.stage import Stage

pytestmark = pytest.mark.testbed

# A minute in full; whether it lasts four seconds or sixty makes no difference to the extender: any
# request has given up by then, and its watches have not (`watch_idle_seconds` is 90).
AWAY_SECONDS = float(os.environ.get("GPUSTACK_FAULT_SECONDS", "4"))
IDLE_SECONDS = 2


def test_an_api_server_that_stands_still_delays_and_loses_nothing(stage: Stage) -> None:
    with stage.loaded("still") as (extender, pods):
        stage.control.api_server.signal(signal.SIGSTOP)
        try:
            time.sleep(AWAY_SECONDS)
            assert extender.get("/healthz")[0] == 200
        finally:
            stage.control.api_server.signal(signal.SIGCONT)
        pods.recovers()


def test_connections_that_break_all_the_time_lose_nothing(stage: Stage) -> None:
    with stage.behind_proxy("cut") as (network, _, pods):
        for _ in range(25):
            network.cut()
            time.sleep(0.1)
        pods.recovers()


def test_a_network_that_is_gone_for_a_while_comes_back(stage: Stage) -> None:
    with stage.behind_proxy("gone") as (network, _, pods):
        network.refusing = True
        network.cut()
        time.sleep(AWAY_SECONDS)
        network.refusing = False
        pods.recovers()


@pytest.mark.parametrize("seconds", [0.2, 1.2])
def test_slow_writes_are_decided_in_time_or_not_at_all(stage: Stage, seconds: float) -> None:
    with stage.behind_proxy(f"slow{seconds:g}".replace(".", "")) as (network, _, pods):
        network.delay_seconds = seconds
        time.sleep(3)
        load.judge(stage.client)
        network.delay_seconds = 0.0
        pods.recovers()


def test_pods_that_others_write_to_all_the_time_are_bound_all_the_same(stage: Stage) -> None:
    stop = threading.Event()

    def label() -> None:
        """Change every waiting pod, over and over: every resourceVersion is soon outdated."""
        at = 0
        while not stop.is_set():
            for pod in stage.client.get(load.PODS, {"fieldSelector": "spec.nodeName="})["items"]:
                at += 1
                body = {"metadata": {"labels": {"touched": str(at)}}}
                with contextlib.suppress(KubeError, KubeUnavailable):
                    stage.client.patch(f"{load.PODS}/{pod['metadata']['name']}", body)

    writer = threading.Thread(target=label, daemon=True)
    with stage.loaded("busy") as (_, pods):
        writer.start()
        try:
            before = len(pods.done)
            time.sleep(3)
            assert len(pods.done) > before
        finally:
            stop.set()
            writer.join()
        pods.recovers()


def test_an_api_server_that_has_forgotten_is_listed_again(stage: Stage) -> None:
    """It starts again with an empty watch cache, and etcd has compacted what went before: 410."""
    with stage.behind_proxy("410") as (network, extender, pods):
        network.refusing = True
        network.cut()
        stage.client.post(load.PODS, {"metadata": {"name": "unseen"}, **_asleep()})
        version = stage.client.get("/api/v1/nodes")["metadata"]["resourceVersion"]
        _compact(stage.control, int(version))
        _restart(stage.control)
        network.refusing = False
        pods.recovers()
        extender.process.wait_until(lambda: "listing again" in extender.process.log.read_text())


def test_a_quiet_watch_is_not_taken_for_a_lost_one(stage: Stage) -> None:
    """Nothing happens for longer than a silent connection would be believed alive."""
    with stage.extender(watch_idle_seconds=IDLE_SECONDS, stale_seconds=2 * IDLE_SECONDS) as quiet:
        time.sleep(2 * IDLE_SECONDS + 1)
        assert quiet.ready()
        assert "watch lost" not in quiet.process.log.read_text()


def _asleep() -> dict[str, object]:
    return {"spec": {"containers": [{"name": "main", "image": "none"}]}}


def _compact(control: plane.ControlPlane, revision: int) -> None:
    """Let etcd forget what lies before a revision."""
    words = pathlib.Path(f"/proc/{control.etcd.pid}/cmdline").read_text().split("\0")
    url = next(word.partition("=")[2] for word in words if word.startswith("--listen-client"))
    body = json.dumps({"revision": revision, "physical": True}).encode()
    with urllib.request.urlopen(f"{url}/v3/kv/compaction", body, timeout=10) as answer:
        assert answer.status == 200


def _restart(control: plane.ControlPlane) -> None:
    """Kill the API server and start it again; the new one is the control plane's from then on."""
    words = pathlib.Path(f"/proc/{control.api_server.pid}/cmdline").read_text().split("\0")[:-1]
    control.api_server.kill()
    control.api_server = processes.Process(words, control.folder / "kube-apiserver-2.log")
    client = KubeClient.from_kubeconfig(control.admin)

    def answers() -> bool:
        try:
            return client.get_raw("/readyz") == b"ok"
        except (KubeError, KubeUnavailable):
            return False

    control.api_server.wait_until(answers)
