"""The API server goes away, comes back, forgets, is slow, or others write to it as well."""

import contextlib
import json
import os
import pathlib
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from gpustack.adapters.kube import KubeClient, KubeError, KubeUnavailable
from tests.control_plane import extending, plane, processes
from tests.faults import load, proxy

pytestmark = pytest.mark.bench

# A minute in full; whether it lasts four seconds or sixty makes no difference to the extender: any
# request has given up by then, and its watches have not (`watch_idle_seconds` is 90).
AWAY_SECONDS = float(os.environ.get("GPUSTACK_FAULT_SECONDS", "4"))
RECOVERY_SECONDS = 5.0


@contextlib.contextmanager
def loaded(
    folder: pathlib.Path, kubeconfig: pathlib.Path, client: KubeClient, name: str
) -> Iterator[tuple[extending.RunningExtender, load.Load]]:
    """Run an extender under load, and judge what became of it."""
    with extending.start(folder, kubeconfig) as extender:
        with load.Load(client, extender.port, name) as pods:
            pods.wait_for_one_asked_after(time.monotonic(), within_seconds=RECOVERY_SECONDS)
            yield extender, pods
        load.judge(client)
        load.nothing_is_lost(client, pods)
        assert "Traceback" not in extender.process.log.read_text()


def recovers(pods: load.Load) -> None:
    pods.wait_for_one_asked_after(time.monotonic(), within_seconds=RECOVERY_SECONDS)


def test_an_api_server_that_stands_still_delays_and_loses_nothing(
    control: plane.ControlPlane,
    client: KubeClient,
    kubeconfig: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    with loaded(tmp_path, kubeconfig, client, "still") as (extender, pods):
        control.api_server.signal(signal.SIGSTOP)
        try:
            time.sleep(AWAY_SECONDS)
            assert extender.get("/healthz")[0] == 200
        finally:
            control.api_server.signal(signal.SIGCONT)
        recovers(pods)


def test_connections_that_break_all_the_time_lose_nothing(
    client: KubeClient, kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with (
        proxy.before(kubeconfig, tmp_path) as (network, through),
        loaded(tmp_path, through, client, "cut") as (_, pods),
    ):
        for _ in range(25):
            network.cut()
            time.sleep(0.1)
        recovers(pods)
        load.judge(client)


def test_a_network_that_is_gone_for_a_while_comes_back(
    client: KubeClient, kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with (
        proxy.before(kubeconfig, tmp_path) as (network, through),
        loaded(tmp_path, through, client, "gone") as (_, pods),
    ):
        network.refusing = True
        network.cut()
        time.sleep(AWAY_SECONDS)
        network.refusing = False
        recovers(pods)


@pytest.mark.parametrize("seconds", [0.2, 1.2])
def test_slow_writes_are_decided_in_time_or_not_at_all(
    client: KubeClient, kubeconfig: pathlib.Path, tmp_path: pathlib.Path, seconds: float
) -> None:
    with (
        proxy.before(kubeconfig, tmp_path) as (network, through),
        loaded(tmp_path, through, client, f"slow{seconds:g}".replace(".", "")) as (_, pods),
    ):
        network.delay_seconds = seconds
        time.sleep(3)
        load.judge(client)
        network.delay_seconds = 0.0
        recovers(pods)


def test_pods_that_others_write_to_all_the_time_are_bound_all_the_same(
    client: KubeClient, kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    stop = threading.Event()

    def label() -> None:
        """Change every waiting pod, over and over: every resourceVersion is soon outdated."""
        at = 0
        while not stop.is_set():
            for pod in client.get(load.PODS, {"fieldSelector": "spec.nodeName="})["items"]:
                at += 1
                body = {"metadata": {"labels": {"touched": str(at)}}}
                with contextlib.suppress(KubeError, KubeUnavailable):
                    client.patch(f"{load.PODS}/{pod['metadata']['name']}", body)

    writer = threading.Thread(target=label, daemon=True)
    with loaded(tmp_path, kubeconfig, client, "busy") as (_, pods):
        writer.start()
        try:
            before = len(pods.done)
            time.sleep(3)
            assert len(pods.done) > before
        finally:
            stop.set()
            writer.join()
        recovers(pods)


def test_an_api_server_that_has_forgotten_is_listed_again(
    control: plane.ControlPlane,
    client: KubeClient,
    kubeconfig: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    """It starts again with an empty watch cache, and etcd has compacted what went before: 410."""
    with (
        proxy.before(kubeconfig, tmp_path) as (network, through),
        loaded(tmp_path, through, client, "410") as (extender, pods),
    ):
        network.refusing = True
        network.cut()
        client.post(load.PODS, {"metadata": {"name": "unseen"}, **_asleep()})
        version = client.get("/api/v1/nodes")["metadata"]["resourceVersion"]
        _compact(control, int(version))
        _restart(control)
        network.refusing = False
        recovers(pods)
        _says(extender, "listing again")


def _says(extender: extending.RunningExtender, words: str) -> None:
    deadline = time.monotonic() + 2 * RECOVERY_SECONDS
    while words not in extender.process.log.read_text():
        assert time.monotonic() < deadline, extender.process.log.read_text()[-3000:]
        time.sleep(0.05)


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
