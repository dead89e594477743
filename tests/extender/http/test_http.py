"""The extender's answers to requests that differ a little from kube-scheduler's."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

import gpustack
from tests.extender.calls import bind
from tests.extender.client import eventually
from tests.extender.mini_cluster import PREDICATES, MiniCluster, node, pod, serving
from tests.fakes.kube_api import FakeKubeApi


def post(mini: MiniCluster, body: object) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return mini.call("POST", PREDICATES, raw)


POD = {"metadata": {"name": "p", "namespace": "default", "uid": "1"}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"\xff{}", "body"),
        (b"[" * 100_000, "body"),
        ({"NodeNames": []}, "Pod"),
        ({"Pod": None, "NodeNames": []}, "Pod"),
        ({"Pod": 7, "NodeNames": []}, "Pod"),
        ({"Pod": {}, "NodeNames": []}, "metadata"),
        ({"Pod": {"metadata": {"uid": "1"}}, "NodeNames": []}, "name"),
        ({"Pod": {"metadata": {"name": "p"}}, "NodeNames": []}, "uid"),
        ({"Pod": {"metadata": {"name": "p", "uid": ""}}, "NodeNames": []}, "Pod.metadata.uid"),
        ({"Pod": POD}, "Nodes"),
        ({"Pod": POD, "Nodes": None, "NodeNames": None}, "NodeNames"),
        ({"Pod": POD, "NodeNames": "gpu1"}, "NodeNames"),
        ({"Pod": POD, "NodeNames": [1]}, "NodeNames[0]"),
        ({"Pod": POD, "Nodes": []}, "Nodes"),
        ({"Pod": POD, "Nodes": {"items": {}}}, "Nodes.items"),
        ({"Pod": POD, "Nodes": {"items": [{"metadata": {}}]}}, "Nodes.items[0]"),
    ],
)
def test_a_bad_body_is_400_and_names_the_field(mini: MiniCluster, body: object, field: str) -> None:
    answer = post(mini, body)
    assert answer.status == 400
    assert field in answer.body["Error"]
    assert mini.api.asked("PATCH", "") == []


@pytest.mark.parametrize("segment", [".", ".."])
def test_a_name_of_dots_leads_to_no_other_path(mini: MiniCluster, segment: str) -> None:
    named = {"metadata": {"name": "p", "namespace": segment, "uid": "1"}}
    answer = post(mini, {"Pod": named, "NodeNames": ["gpu1"]})
    assert "is gone" in answer.body["Error"]
    assert mini.api.asked("GET", "/pods/p") == []


@pytest.mark.parametrize("change", [str.lower, str.upper, str.title])
def test_field_names_are_read_in_any_case(mini: MiniCluster, change: Any) -> None:
    created = mini.create(pod("p", 50, 32))
    answer = post(mini, {change("Pod"): created, change("NodeNames"): ["gpu2"], "other": {}})
    assert answer.body["NodeNames"] == ["gpu2"]


def test_answers_are_spelt_as_extender_v1_has_them(mini: MiniCluster) -> None:
    result = mini.place("p", 50, 32)
    assert list(result) == [
        "Nodes",
        "NodeNames",
        "FailedNodes",
        "FailedAndUnresolvableNodes",
        "Error",
    ]


def test_a_body_over_the_limit_is_413(mini: MiniCluster) -> None:
    answer = post(mini, {"Pod": POD, "NodeNames": ["x" * (1 << 20)]})
    assert answer.status == 413
    assert answer.body["Error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", PREDICATES, 405),
        ("POST", "/scheduler/unknown", 404),
        ("POST", "/healthz", 405),
        ("GET", "/nowhere", 404),
    ],
)
def test_other_paths_and_methods_are_refused(
    mini: MiniCluster, method: str, path: str, status: int
) -> None:
    answer = mini.call(method, path)
    assert answer.status == status
    assert answer.body["Error"]


def test_version_and_health_are_plain_text(mini: MiniCluster) -> None:
    assert mini.call("GET", "/version").raw.decode() == f"{gpustack.__version__}\n"
    assert mini.call("GET", "/healthz").raw == b"ok\n"
    assert mini.call("GET", "/readyz").raw == b"ok\n"


def test_nothing_is_decided_before_the_first_sync(api: FakeKubeApi, tmp_path: Path) -> None:
    api.create("nodes", node("gpu1"))
    fault = api.faults.hold("GET", "/pods$")
    with serving(api, tmp_path, wait=False) as mini:
        assert fault.reached.wait(10)
        eventually(lambda: "list of pods" in mini.call("GET", "/readyz").raw.decode())
        assert mini.call("GET", "/readyz").status == 503
        assert mini.call("GET", "/healthz").status == 200
        created = mini.create(pod("p", 50, 32))
        assert "first list" in mini.ask(created, ["gpu1"])["Error"]
        assert "first list" in bind(mini, created, "gpu1")
        fault.release()
        eventually(lambda: mini.call("GET", "/readyz").status == 200)


def test_readyz_says_what_the_api_server_answers_instead(api: FakeKubeApi, tmp_path: Path) -> None:
    api.faults.fail("GET", "/pods$", status=403, reason="Forbidden", times=1_000)
    with serving(api, tmp_path, wait=False) as mini:
        said = "the first list of pods is still missing: API server answered 403"
        eventually(lambda: mini.call("GET", "/readyz").raw.decode().startswith(said))


def test_metrics_count_outcomes_and_time_verbs(mini: MiniCluster) -> None:
    mini.place("p", 50, 32)
    mini.place("bad", 150)
    post(mini, b"{")
    text = mini.call("GET", "/metrics").raw.decode()
    for line in (
        'gpustack_extender_decisions_total{outcome="Placed"} 1.0',
        'gpustack_extender_decisions_total{outcome="BadRequest"} 1.0',
        'gpustack_extender_verb_duration_seconds_count{verb="predicates"} 3.0',
        "gpustack_extender_reservations 1.0",
        f'gpustack_extender_build_info{{version="{gpustack.__version__}"}} 1.0',
    ):
        assert line in text.splitlines()
    assert 'gpustack_extender_watch_age_seconds{resource="pods"}' in text


def test_nothing_is_written_for_a_caller_that_has_gone(mini: MiniCluster) -> None:
    held = mini.api.faults.hold("GET", "/pods/p$")
    mini.api.hold_watches()
    created = mini.create(pod("p", 50, 32))  # the watch hasn't shown it, so the extender reads it
    body = json.dumps({"Pod": created, "NodeNames": ["gpu1"]}).encode()
    with socket.create_connection(("127.0.0.1", mini.port)) as connection:
        head = (
            f"POST {PREDICATES} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        assert held.reached.wait(10)
    held.release()
    outcome = 'gpustack_extender_decisions_total{outcome="CallerGone"} 1.0'
    eventually(lambda: outcome in mini.call("GET", "/metrics").raw.decode())
    assert mini.api.asked("PATCH", "") == []
    assert mini.free_cores("gpu1") == 200
