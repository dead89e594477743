"""`gpustack doctor --run-pods`: what pods see is compared with what they were given."""

import contextlib
import copy
import io
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpustack.cli.doctor.cluster.checks import CHECKS, TRIAL_CHECKS
from gpustack.cli.main import main
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.wire.annotations import encode_decision
from gpustack.wire.pods import parse_limits
from tests.cli.doctor import good_cluster
from tests.cli.doctor.good_cluster import ask, bad, kubeconfig
from tests.cli.snapshots import KEYS, NODE, pod
from tests.fakes.kube_api import FakeKubeApi

IMAGE = "registry.example/cuda:12"
OURS = "gpustack-doctor-"
Printing = Callable[[Placement], str]


def honest(placement: Placement) -> str:
    """Return what nvidia-smi prints in the pod's container."""
    (container,) = placement.containers
    memory = {card.uuid: card.memory_bytes >> 20 for card in NODE.cards}
    share = container.memory_units * 256 if container.is_share else 0
    return "".join(f"{uuid}, {share or memory[uuid]}\n" for uuid in container.uuids)


class Cluster(threading.Thread):
    """Places and runs the pods that appear, and keeps what they were."""

    def __init__(self, api: FakeKubeApi, printing: Printing) -> None:
        super().__init__(daemon=True)
        self.api, self.printing = api, printing
        self.pods: list[dict[str, Any]] = []
        self.stopping = False

    def run(self) -> None:
        seen: set[str] = set()
        while not self.stopping:
            with self.api.store.changed:
                new = [each for each in self._ours() if each["metadata"]["name"] not in seen]
                if not new:
                    self.api.store.changed.wait(1)
                    continue
            for item in new:
                seen.add(item["metadata"]["name"])
                self.pods.append(copy.deepcopy(item))
                self._serve(item)

    def _ours(self) -> list[dict[str, Any]]:
        _, found = self.api.store.list("pods")
        return [each for each in found if each["metadata"].get("generateName") == OURS]

    def _serve(self, item: dict[str, Any]) -> None:
        request = parse_limits(KEYS, item)
        assert request is not None
        found = place(NODE, request)
        assert isinstance(found, Placement)
        decided = encode_decision(KEYS, found, 1)
        done = {
            "metadata": {"annotations": decided},
            "spec": {"nodeName": NODE.name},
            "status": {"phase": "Succeeded"},
            "log": self.printing(found),
        }
        metadata = item["metadata"]
        self.api.edit("pods", metadata["name"], done, metadata["namespace"])


@contextlib.contextmanager
def serving(api: FakeKubeApi, printing: Printing = honest) -> Iterator[Cluster]:
    cluster = Cluster(api, printing)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stopping = True
        with api.store.changed:
            api.store.changed.notify_all()
        cluster.join(10)


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        good_cluster.fill(server)
        yield server


def left(api: FakeKubeApi) -> list[str]:
    _, pods = api.store.list("pods")
    names = [each["metadata"]["name"] for each in pods]
    return [name for name in names if name.startswith(OURS)]


def found(value: dict[str, Any], check: str) -> str:
    (one,) = [each for each in value["findings"] if each["check"] == check]
    assert isinstance(one["found"], str)
    return one["found"]


def test_a_pod_of_each_kind_runs_and_is_removed(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*kubeconfig(api, tmp_path), "--run-pods", IMAGE)
    with serving(api) as cluster:
        value = ask(capsys, *words, status=0)
    assert bad(value) == []
    assert len(value["findings"]) == len(CHECKS) + len(TRIAL_CHECKS)
    limits = [each["spec"]["containers"][0]["resources"]["limits"] for each in cluster.pods]
    assert [each[KEYS.vcuda_core] for each in limits] == ["10", "100"]
    assert left(api) == []


def test_on_a_terminal_the_pods_that_ended_are_counted(
    api: FakeKubeApi, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    words = (*kubeconfig(api, tmp_path), "--run-pods", IMAGE)
    with serving(api):
        assert main(["doctor", *words]) == 0
    for kind in ("share", "whole card"):
        assert f"\r{kind}: 100 % of 1 pods\n" in terminal.getvalue()


def test_pods_go_where_and_by_whom_they_are_told(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--run-pods", IMAGE, "--namespace", "team", "--scheduler-name", "gpustack")
    with serving(api) as cluster:
        ask(capsys, *kubeconfig(api, tmp_path), *words)
    assert len(cluster.pods) == 2
    for each in cluster.pods:
        assert each["metadata"]["namespace"] == "team"
        assert each["spec"]["schedulerName"] == "gpustack"
        assert each["spec"]["containers"][0]["image"] == IMAGE


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("GPU-1, 16384\n", ("share-pods", "given GPU-0 with 1024 MiB, and saw GPU-1")),
        ("GPU-0, 16384\n", ("share-pods", "and saw GPU-0 with 16384 MiB")),
        ("No devices were found\n", ("share-pods", "and saw No devices were found")),
        ("", ("whole-card-pods", "and saw none")),
    ],
)
def test_what_a_pod_should_not_see_is_a_fault(
    api: FakeKubeApi,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    printed: str,
    said: tuple[str, str],
) -> None:
    check, text = said
    with serving(api, lambda _: printed):
        value = ask(capsys, *kubeconfig(api, tmp_path), "--run-pods", IMAGE, status=1)
    assert text in found(value, check)
    assert (check, "fail") in bad(value)
    assert left(api) == []


def test_a_pod_that_never_runs_is_a_fault_and_removed(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--run-pods", IMAGE, "--pod-seconds", "1")
    value = ask(capsys, *kubeconfig(api, tmp_path), *words, status=1)
    assert bad(value) == [("share-pods", "fail"), ("whole-card-pods", "fail")]
    assert found(value, "share-pods") == "Pending: nothing says why"
    assert left(api) == []


def test_a_node_without_room_is_not_tried(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = pod("full", 200, 0, held=True)
    api.delete("pods", "holder")
    api.create("pods", full)
    value = ask(capsys, *kubeconfig(api, tmp_path), "--run-pods", IMAGE, status=0)
    assert bad(value) == [("share-pods", "warn"), ("whole-card-pods", "warn")]
    assert api.asked("POST", "/pods") == []


def test_a_refused_pod_is_a_fault_with_the_refusal(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.faults.fail("POST", r"/pods$", status=403, times=2)
    value = ask(capsys, *kubeconfig(api, tmp_path), "--run-pods", IMAGE, status=1)
    assert found(value, "share-pods").startswith("the API server refuses the pod: ")


def ended(node: str) -> dict[str, Any]:
    """Return a trial pod of another run."""
    labels = {"app.kubernetes.io/name": "gpustack-doctor"}
    metadata = {"name": f"{OURS}{node}", "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Failed"}}


def test_what_a_killed_run_left_on_these_nodes_is_removed(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.create("pods", ended(NODE.name))
    api.create("pods", ended("elsewhere"))
    with serving(api, honest):
        ask(capsys, *kubeconfig(api, tmp_path), "--run-pods", IMAGE)
    assert left(api) == [f"{OURS}elsewhere"]


def test_only_named_nodes_are_tried_and_unknown_ones_told(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*kubeconfig(api, tmp_path), "--run-pods", IMAGE, "--node")
    value = ask(capsys, *words, "absent", status=1)
    assert found(value, "share-pods") == "no GPU node has this name"
    assert api.asked("POST", "/pods") == []
    with serving(api) as cluster:
        ask(capsys, *words, NODE.name, status=0)
    assert len(cluster.pods) == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--node", "a"), "--node: needs argument --run-pods"),
        (("--namespace", "a"), "--namespace: needs argument --run-pods"),
        (("--scheduler-name", "a"), "--scheduler-name: needs argument --run-pods"),
        (("--pod-seconds", "1"), "--pod-seconds: needs argument --run-pods"),
        (("--run-pods", "a", "--snapshot", "b"), "--run-pods: not allowed with argument --snaps"),
        (("--run-pods", "a", "--host"), "--run-pods: not allowed with argument --host"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *words])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err
