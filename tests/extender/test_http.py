"""What the extender answers to requests that are not quite what kube-scheduler sends."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

import gpustack
from tests.extender.calls import bind
from tests.extender.client import eventually
from tests.extender.mini_cluster import PREDICATES, Bench, node, pod, serving
from tests.fakes.kube_api import FakeKubeApi


def post(bench: Bench, body: object) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return bench.call("POST", PREDICATES, raw)


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
def test_a_bad_body_is_400_and_names_the_field(bench: Bench, body: object, field: str) -> None:
    answer = post(bench, body)
    assert answer.status == 400
    assert field in answer.body["Error"]
    assert bench.api.asked("PATCH", "") == []


@pytest.mark.parametrize("segment", [".", ".."])
def test_a_name_of_dots_leads_to_no_other_path(bench: Bench, segment: str) -> None:
    named = {"metadata": {"name": "p", "namespace": segment, "uid": "1"}}
    answer = post(bench, {"Pod": named, "NodeNames": ["gpu1"]})
    assert "is gone" in answer.body["Error"]
    assert bench.api.asked("GET", "/pods/p") == []


@pytest.mark.parametrize("change", [str.lower, str.upper, str.title])
def test_field_names_are_read_in_any_case(bench: Bench, change: Any) -> None:
    created = bench.create(pod("p", 50, 32))
    answer = post(bench, {change("Pod"): created, change("NodeNames"): ["gpu2"], "other": {}})
    assert answer.body["NodeNames"] == ["gpu2"]


def test_answers_are_spelt_as_extender_v1_has_them(bench: Bench) -> None:
    result = bench.place("p", 50, 32)
    assert list(result) == [
        "Nodes",
        "NodeNames",
        "FailedNodes",
        "FailedAndUnresolvableNodes",
        "Error",
    ]


def test_a_body_over_the_limit_is_413(bench: Bench) -> None:
    answer = post(bench, {"Pod": POD, "NodeNames": ["x" * (1 << 20)]})
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
    bench: Bench, method: str, path: str, status: int
) -> None:
    answer = bench.call(method, path)
    assert answer.status == status
    assert answer.body["Error"]


def test_version_and_health_are_plain_text(bench: Bench) -> None:
    assert bench.call("GET", "/version").raw.decode() == f"{gpustack.__version__}\n"
    assert bench.call("GET", "/healthz").raw == b"ok\n"
    assert bench.call("GET", "/readyz").raw == b"ok\n"


def test_nothing_is_decided_before_the_first_sync(api: FakeKubeApi, tmp_path: Path) -> None:
    api.create("nodes", node("gpu1"))
    fault = api.faults.hold("GET", "/pods$")
    with serving(api, tmp_path, wait=False) as bench:
        assert fault.reached.wait(10)
        eventually(lambda: "list of pods" in bench.call("GET", "/readyz").raw.decode())
        assert bench.call("GET", "/readyz").status == 503
        assert bench.call("GET", "/healthz").status == 200
        created = bench.create(pod("p", 50, 32))
        assert "first list" in bench.ask(created, ["gpu1"])["Error"]
        assert "first list" in bind(bench, created, "gpu1")
        fault.release()
        eventually(lambda: bench.call("GET", "/readyz").status == 200)


def test_readyz_says_what_the_api_server_answers_instead(api: FakeKubeApi, tmp_path: Path) -> None:
    api.faults.fail("GET", "/pods$", status=403, reason="Forbidden", times=1_000)
    with serving(api, tmp_path, wait=False) as bench:
        said = "the first list of pods is still missing: API server answered 403"
        eventually(lambda: bench.call("GET", "/readyz").raw.decode().startswith(said))


def test_metrics_count_outcomes_and_time_verbs(bench: Bench) -> None:
    bench.place("p", 50, 32)
    bench.place("bad", 150)
    post(bench, b"{")
    text = bench.call("GET", "/metrics").raw.decode()
    for line in (
        'gpustack_extender_decisions_total{outcome="Placed"} 1.0',
        'gpustack_extender_decisions_total{outcome="BadRequest"} 1.0',
        'gpustack_extender_verb_duration_seconds_count{verb="predicates"} 3.0',
        "gpustack_extender_reservations 1.0",
        f'gpustack_extender_build_info{{version="{gpustack.__version__}"}} 1.0',
    ):
        assert line in text.splitlines()
    assert 'gpustack_extender_watch_age_seconds{resource="pods"}' in text


def test_nothing_is_written_for_a_caller_that_has_gone(bench: Bench) -> None:
    held = bench.api.faults.hold("GET", "/pods/p$")
    bench.api.hold_watches()
    created = bench.create(pod("p", 50, 32))  # not seen yet, so it is read
    body = json.dumps({"Pod": created, "NodeNames": ["gpu1"]}).encode()
    with socket.create_connection(("127.0.0.1", bench.port)) as connection:
        head = (
            f"POST {PREDICATES} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        assert held.reached.wait(10)
    held.release()
    outcome = 'gpustack_extender_decisions_total{outcome="CallerGone"} 1.0'
    eventually(lambda: outcome in bench.call("GET", "/metrics").raw.decode())
    assert bench.api.asked("PATCH", "") == []
    assert bench.free_cores("gpu1") == 200
