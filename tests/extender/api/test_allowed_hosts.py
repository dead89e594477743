"""Allowed hosts and origins: a web page can't read the cluster or call a verb."""

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import flask
import pytest

from extender.api.app import create_app
from extender.settings import load
from gpustack.wire.host_header import AllowedHosts
from tests.extender.client import Answer
from tests.extender.mini_cluster import PREDICATES, MiniCluster, node
from tests.extender.process import Process, of_snapshot, process
from tests.fakes.kube_api import FakeKubeApi

JSON = {"Content-Type": "application/json"}
# Content types that another site's page, or its script, sends without a CORS preflight.
FORMS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")
VERBS = ("predicates", "filter", "prioritize", "priorities", "bind", "preempt")


def routes(app: flask.Flask) -> list[tuple[str, str]]:
    """The method and path of every route."""
    return sorted(
        (method, re.sub(r"<\w+>", "x", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    )


def test_every_route_refuses_a_foreign_host(mini: MiniCluster) -> None:
    app = create_app(mini.service, request_limit_bytes=1 << 20)
    found = routes(app)
    assert ("GET", "/v1/cluster") in found
    client = app.test_client()
    for method, path in [*found, ("GET", "/nowhere"), ("OPTIONS", "/v1/cluster")]:
        answer = client.open(
            path, method=method, headers={"Host": "rebound.example:3456", **JSON}, data=b"{}"
        )
        assert answer.status_code == 421, path
        assert answer.json is not None
        assert answer.json["Error"].startswith("Host: 'rebound.example:3456'")
        assert "allowed_hosts" in answer.json["Error"]


@pytest.mark.parametrize("host", ["gpu-plane.example:4000", "[FD00::5]", "127.0.0.1:9999"])
def test_hosts_that_the_settings_name_are_allowed(mini: MiniCluster, host: str) -> None:
    hosts = AllowedHosts(["fd00::5", "GPU-plane.example"])
    client = create_app(mini.service, request_limit_bytes=1 << 20, hosts=hosts).test_client()
    assert client.get("/v1/cluster", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", FORMS)
def test_a_verb_takes_only_json(mini: MiniCluster, verb: str, kind: str) -> None:
    client = create_app(mini.service, request_limit_bytes=1 << 20).test_client()
    answer = client.post(f"/scheduler/{verb}", data=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert answer.json is not None
    assert answer.json["Error"].startswith("Content-Type: ")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_is_json_with_parameters_and_in_any_case(mini: MiniCluster, kind: str) -> None:
    client = create_app(mini.service, request_limit_bytes=1 << 20).test_client()
    answer = client.post(PREDICATES, data=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert answer.json == {"Error": mini.call("POST", PREDICATES, b"{}").body["Error"]}


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:3456"])
def test_a_verb_answers_no_web_page(mini: MiniCluster, origin: str) -> None:
    client = create_app(mini.service, request_limit_bytes=1 << 20).test_client()
    for verb in VERBS:
        headers = {"Origin": origin, **JSON}
        answer = client.post(f"/scheduler/{verb}", data=b"{}", headers=headers)
        assert answer.status_code == 403
        assert answer.json is not None
        assert answer.json["Error"].startswith("Origin: ")
    assert client.get("/v1/cluster", headers={"Origin": origin}).status_code == 200


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The real process, which reads the scheduler's own head without a framework."""
    with FakeKubeApi() as api:
        api.create("nodes", node("gpu1"))
        folder = tmp_path_factory.mktemp("served")
        with process(api, folder, allowed_hosts=["plane.example"]) as running:
            yield running


def raw(served: Process, first: str, *lines: str, body: bytes = b"") -> Answer:
    """Send exactly these lines as a head; returns the answer."""
    sent = [first, *lines, f"Content-Length: {len(body)}", "Connection: close"]
    with served.connect() as connection:
        connection.sendall("\r\n".join([*sent, "", ""]).encode() + body)
        response = http.client.HTTPResponse(connection)
        response.begin()
        data = response.read()
        kind = response.getheader("Content-Type")
        parsed = json.loads(data) if kind == "application/json" else None
        return Answer(status=response.status, body=parsed, raw=data)


@pytest.mark.long
@pytest.mark.parametrize(
    ("lines", "version", "status"),
    [
        ([], "1.1", 400),
        (["Host: localhost", "Host: localhost"], "1.1", 400),
        (["Host: localhost", "host: evil.example"], "1.1", 400),
        (["Host: a b"], "1.1", 400),
        (["Host: localhost:" + "9" * 5000], "1.1", 400),
        (["Host: evil.example"], "1.1", 421),
        (["Host: evil.example"], "1.0", 421),
        ([], "1.0", 200),
        (["Host: Plane.example:1"], "1.1", 200),
        (["Host: [::1]:3456"], "1.1", 200),
    ],
)
def test_the_process_checks_the_host(
    served: Process, lines: list[str], version: str, status: int
) -> None:
    answer = raw(served, f"GET /version HTTP/{version}", *lines)
    assert answer.status == status
    assert status == 200 or b"host" in answer.raw.lower()


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://evil.example/version", "localhost", 421),
        ("http://u@localhost/version", "localhost", 400),
        ("http://localhost/version", "evil.example", 421),
        ("http://localhost:3456/version", "localhost", 200),
    ],
)
def test_the_host_of_an_absolute_target_is_checked(
    served: Process, target: str, host: str, status: int
) -> None:
    assert raw(served, f"GET {target} HTTP/1.1", f"Host: {host}").status == status


GO: Mapping[str, str] = {
    "Host": "127.0.0.1:3456",
    "User-Agent": "Go-http-client/1.1",
    "Content-Type": "application/json",
    "Accept-Encoding": "gzip",
}


def as_go(served: Process, **changes: str) -> Answer:
    """Ask as kube-scheduler's client does, on the fast path, without a framework."""
    fields = {**GO, **{name.replace("_", "-"): value for name, value in changes.items()}}
    lines = [f"{name}: {value}" for name, value in fields.items()]
    head = "\r\n".join([f"POST {PREDICATES} HTTP/1.1", *lines, "Content-Length: 2", "", "{}"])
    with served.connect() as connection:
        connection.sendall(head.encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        data = response.read()
        return Answer(status=response.status, body=json.loads(data), raw=data)


@pytest.mark.long
def test_the_fast_path_checks_a_head_as_the_parser_does(served: Process) -> None:
    assert as_go(served).body["Error"] == as_go(served, Accept="*/*").body["Error"]
    assert as_go(served).status == 400  # an empty body, whose error names the missing field
    assert as_go(served, Host="plane.example:3456").status == 400
    assert as_go(served, Host="evil.example").status == 421
    assert as_go(served, Content_Type="text/plain").status == 415
    assert as_go(served, Origin="http://evil.example").status == 403


@pytest.mark.long
def test_a_snapshot_is_served_under_our_names_only(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("gpu1")]}))
    with of_snapshot(str(file), tmp_path) as running:
        path = "GET /v1/cluster HTTP/1.1"
        assert raw(running, path, "Host: localhost").body["nodes"]
        assert raw(running, path, "Host: evil.example").status == 421


def test_the_listen_address_is_an_allowed_host(tmp_path: Path) -> None:
    file = tmp_path / "extender.yml"
    tls = "{certificate: a, key: b, client_ca: c}"
    file.write_text(f"listen: 192.0.2.7:3456\ntls: {tls}\nallowed_hosts: ['[fd00::7]', b.example]")
    hosts = load(file).hosts
    for host in ("192.0.2.7:3456", "[fd00::7]:3456", "B.example", "localhost"):
        assert hosts.refusal([host]) is None
    assert hosts.refusal(["192.0.2.8"]) is not None
