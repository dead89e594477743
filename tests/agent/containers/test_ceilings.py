"""The burst ceiling of a running pod, which its user changes by an annotation."""

import pathlib
import threading
from typing import Any

import pytest

from gpustack.adapters import mapped
from tests.agent.host import CORE, KEYS, Host, Pod, container, decision, make_pod

SHARES = 4


def annotate(host: Host, pod: Pod, key: str, value: str) -> None:
    """Change an annotation, and wait until the agent has gone through the change."""
    version = host.api.edit(
        "pods", pod["metadata"]["name"], {"metadata": {"annotations": {key: value}}}
    )
    behind = host.create(make_pod(f"behind-{version['metadata']['resourceVersion']}"))
    host.wait_until(lambda: host.agent.pods.get(behind["metadata"]["uid"]) is not None)


def test_an_annotation_that_changes_no_ceiling_costs_no_look_at_files(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant made 20 changes a second, and those of all other pods came late."""
    host.start_agent()
    shares = [container(f"c{at}", 10, 8) for at in range(SHARES)]
    decided = decision(*[(1,)] * SHARES, cores=10, memory=8)
    pod = host.create(make_pod("p", *shares, annotations=decided))
    host.kubelet.admit(pod)
    for at in range(SHARES):
        host.kubelet.start_container(pod, f"c{at}", CORE)
    host.wait_until(lambda: host.annotations(pod)[KEYS.gpu_assigned] == "true")
    files = [host.folder(pod, f"c{at}") / "limits" for at in range(SHARES)]
    annotate(host, pod, KEYS.core_limit, "80")
    host.wait_until(lambda: {_burst(each) for each in files} == {80})
    folders = host.agent.folders
    prepared, prepare = list[str](), folders.prepare

    def counted(*asked: Any) -> pathlib.Path:
        prepared.append(str(asked[0]))
        return prepare(*asked)

    monkeypatch.setattr(folders, "prepare", counted)
    for turn in range(1, 4):
        annotate(host, pod, "example.org/any", str(turn))
    annotate(host, pod, KEYS.core_limit, "90")
    host.wait_until(lambda: {_burst(each) for each in files} == {90})
    assert len(prepared) == SHARES


def test_the_files_of_a_ceiling_keep_no_pod_from_being_seen(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start_agent()
    pod = host.share()
    host.kubelet.admit(pod)
    go_on, prepare = threading.Event(), host.agent.folders.prepare

    def slow(*asked: Any) -> pathlib.Path:
        go_on.wait()
        return prepare(*asked)

    monkeypatch.setattr(host.agent.folders, "prepare", slow)
    try:
        annotate(host, pod, KEYS.core_limit, "90")
    finally:
        go_on.set()


def _burst(file: pathlib.Path) -> int:
    return mapped.read_limits(file).devices[0].burst_percent
