"""``gpustack doctor`` where a cluster answers badly, not at all, or is a snapshot."""

import http.server
import json
import pathlib
import threading
from collections.abc import Iterator

import pytest
import yaml

from gpustack.cli.doctor.cluster import facts
from gpustack.cli.doctor.cluster.laid_policies import LAID, LaidPolicy
from gpustack.cli.main import main
from tests.ansible import rendering
from tests.cli.doctor import good_cluster
from tests.cli.doctor.good_cluster import ask, bad, good_node, kubeconfig
from tests.cli.snapshots import NODE, pod, write
from tests.fakes.kube_api import FakeKubeApi


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    with FakeKubeApi() as server:
        good_cluster.fill(server)
        yield server


@pytest.mark.long
def test_the_policies_are_those_that_the_role_lays(tmp_path: pathlib.Path) -> None:
    laid = {}
    for file in rendering.render(tmp_path).glob("gpustack-*.yml"):
        policy, binding = yaml.safe_load_all(file.read_text("utf-8"))
        found = facts.parse_policies({"items": [policy]}, {"items": [binding]})
        name = policy["metadata"]["name"]
        assert found.denying == {name}
        one = found.policies[name]
        assert one.refuses
        laid[name] = LaidPolicy(one.variables, one.validations)
    assert laid == LAID


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"/nodes", [("node-label", "fail"), *((name, "warn") for name in (
            "node-ready", "node-record", "node-capacity", "node-cards", "node-pools",
            "other-plugins", "pod-decisions",
        ))]),
        (r"/pods", [(name, "warn") for name in ("pod-requests", "pod-decisions", "pods-waiting")]),
        (r"/configmaps/", [("quota", "warn")]),
        (r"/validatingadmissionpolicybindings", [("admission-policies", "warn")]),
        (r"/leases/", [("scheduler-lease", "warn")]),
        (r"^/version", [("api-server", "fail")]),
    ],
)  # fmt: skip
def test_what_may_not_be_read_is_said_and_the_rest_is_checked(
    api: FakeKubeApi,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    pattern: str,
    expected: list[tuple[str, str]],
) -> None:
    api.faults.fail("GET", pattern, status=403, times=10)
    value = ask(capsys, *kubeconfig(api, tmp_path))
    assert bad(value) == expected
    assert all("403" in each["found"] for each in value["findings"] if each["level"] != "ok")
    assert {each["mend"] for each in value["findings"] if each["level"] != "ok"} == {
        "kubectl get --raw /readyz; name an identity that may read it with --kubeconfig"
    }
    assert value["not_checked"] == []


def test_a_cluster_that_does_not_answer_is_one_fault(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = kubeconfig(api, tmp_path)
    api.stop()
    value = ask(capsys, *words, status=1)
    assert bad(value) == [("api-server", "fail")]
    assert {each["why"] for each in value["not_checked"]} == {"no API server answers"}
    assert len(value["not_checked"]) == 13


class _OldServer(http.server.BaseHTTPRequestHandler):
    """An API server of a version, with no object of any kind."""

    version = "v1.24.3"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        known: dict[str, object] = {"/version": {"gitVersion": self.version}}
        known |= {f"/api/v1/{each}": {"kind": "List", "items": []} for each in ("nodes", "pods")}
        status = {"kind": "Status", "reason": "NotFound", "message": "no such path", "code": 404}
        body = json.dumps(known.get(path, status)).encode()
        self.send_response(200 if path in known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize(
    ("version", "level", "words"),
    [
        ("v1.24.3", "fail", "the oldest that works is 1.25"),
        ("v1.99.0-alpha.1", "warn", "the newest that was tried is 1.37"),
        ("\x1b[2J", "warn", "which is no version of Kubernetes"),
        ("v1.29.1", "ok", "Kubernetes v1.29.1 answers"),
    ],
)
def test_the_version_of_the_api_server_is_judged(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    version: str,
    level: str,
    words: str,
) -> None:
    handler = type("Handler", (_OldServer,), {"version": version})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        value = ask(capsys, "--kubeconfig", str(path), status=1)
        server.shutdown()
    first = value["findings"][0]
    assert (first["check"], first["level"]) == ("api-server", level), first
    assert words in first["found"]
    others = [("scheduler-lease", "warn"), ("admission-policies", "warn"), ("node-label", "fail")]
    assert [each for each in bad(value) if each[0] != "api-server"] == others


def test_a_snapshot_is_checked_as_far_as_it_goes(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, good_node(), pod("holder", 60, 8, held=True))
    value = ask(capsys, "--snapshot", path, status=0)
    assert bad(value) == []
    left_out = [each["check"] for each in value["not_checked"]]
    assert left_out == ["api-server", "scheduler-lease", "admission-policies"]
    assert main(["doctor", "--snapshot", path]) == 0
    told = capsys.readouterr()
    assert "not checked: api-server, scheduler-lease, admission-policies: a snapshot" in told.err


def test_a_table_says_why_and_how_to_mend(
    api: FakeKubeApi, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "bus\x1b[2J\u202e\nok  node-ready"
    record = good_node()["metadata"]["annotations"]
    value = json.loads(next(iter(record.values())))
    value["devices"][0] |= {"healthy": False, "reason": hostile}
    patch = {"metadata": {"annotations": dict.fromkeys(record, json.dumps(value))}}
    api.edit("nodes", NODE.name, patch)
    assert main(["doctor", *kubeconfig(api, tmp_path)]) == 1
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    (found,) = [line for line in lines if line[:2] == ["fail", "node-cards"]]
    assert found[2].startswith(f"node {NODE.name}: card 0 is closed: bus\\x1b[2J\\u202e\\nok")
    assert any(line[:1] == ["why:"] for line in lines)
    assert any(line[:1] == ["mend:"] for line in lines)


def test_a_long_list_is_cut_in_a_table_only(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = []
    for number in range(30):
        one = good_node()
        one["metadata"]["name"] = f"gpu{number}"
        one["spec"] = {"unschedulable": True}
        nodes.append(one)
    path = write(tmp_path, *nodes)
    assert main(["doctor", "--snapshot", path]) == 0
    out = capsys.readouterr().out
    assert out.count(": cordoned") == 20
    assert "and 10 more; -o json has all" in out
    assert ask(capsys, "--snapshot", path)["sums"]["warn"] == 30


def test_wrong_use_is_told_from_a_fault(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "none: No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", "--snapshot", "f", "--kubeconfig", "g"])
