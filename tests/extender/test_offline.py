"""`gpustack-extender --snapshot FILE`: a cluster in a file, for reading only."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from extender.api.app import create_app
from extender.main import main
from extender.offline import OfflineExtender
from extender.settings import load
from gpustack.wire import schemas
from tests.cli import snapshots
from tests.extender.process import of_snapshot

NODES = ["gpu1"]
POD = {"metadata": {"name": "p", "namespace": "default", "uid": "1"}}


class Client:
    """Calls a snapshot's application without a socket."""

    def __init__(self, path: str) -> None:
        service = OfflineExtender(load(None), path)
        self._client = create_app(service, request_limit_bytes=1 << 20).test_client()

    def get(self, path: str) -> Any:
        answer = self._client.get(path)
        assert answer.status_code == 200, answer.data
        return answer.json

    def post(self, verb: str, body: object, status: int = 200) -> Any:
        answer = self._client.post(f"/scheduler/{verb}", json=body)
        assert answer.status_code == status, answer.data
        return answer.json

    def filter(self, pod: object) -> Any:
        return self.post("filter", {"Pod": pod, "NodeNames": NODES})


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """One node of two cards, one of them held; two pods wait, and one of them doesn't fit."""
    items = [
        snapshots.node(),
        snapshots.pod("held", 100, 0, held=True),
        snapshots.pod("big", 200, 0),
        snapshots.pod("small", 40, 8),
        snapshots.quota('{"other": {"quota": {"T4": 1}}}'),
    ]
    return Client(snapshots.write(tmp_path, *items))


def test_filter_and_prioritize_answer_for_the_files_pods(client: Client) -> None:
    small, big = ({"metadata": {"name": name, "uid": name}} for name in ("small", "big"))
    assert client.filter(small)["NodeNames"] == NODES
    assert client.filter(big)["FailedAndUnresolvableNodes"].keys() == {"gpu1"}
    scores = client.post("prioritize", {"Pod": small, "NodeNames": NODES})
    assert scores == [{"Host": "gpu1", "Score": 10}]


def test_a_pod_that_the_file_lacks_is_read_from_the_request(client: Client) -> None:
    asked = snapshots.pod("new", 40, 8)
    assert client.filter(asked)["NodeNames"] == NODES
    assert client.filter(snapshots.pod("more", 200, 0))["NodeNames"] == []
    assert [each["name"] for each in client.get("/v1/cluster")["waiting"]] == ["big", "small"]


def test_a_request_in_capitals_describes_a_pod_as_well(client: Client) -> None:
    asked = snapshots.pod("new", 200, 0)
    asked["METADATA"] = {name.upper(): value for name, value in asked.pop("metadata").items()}
    asked["METADATA"]["UID"] = "new"
    assert client.filter(asked)["NodeNames"] == []


def test_a_bad_file_on_the_standard_input_is_named_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"kind": "List", "items": [{"kind": "Pod"}]}).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["--snapshot", "-", "--check-config"]) == 2
    assert capsys.readouterr().err.startswith("standard input: items[0].metadata.name")


def test_a_pod_is_known_by_its_name_where_the_request_says_no_more(client: Client) -> None:
    named = {"metadata": {"name": "big", "namespace": "default", "uid": "another"}}
    assert client.filter(named)["NodeNames"] == []


def test_a_pod_without_a_description_is_a_named_error(client: Client) -> None:
    assert "no pod default/p" in client.filter(POD)["Error"]


def test_a_request_without_a_valid_pod_is_400(client: Client) -> None:
    bad = {"metadata": {**POD["metadata"], "labels": 7}, "spec": {}}
    assert "Pod" in client.post("filter", {"Pod": bad, "NodeNames": NODES}, 400)["Error"]


def test_nothing_is_reserved_bound_or_ended(client: Client) -> None:
    before = client.get("/v1/cluster")
    words = "is a read-only snapshot"
    result = client.post("predicates", {"Pod": POD, "NodeNames": NODES})
    assert words in result["Error"]
    assert result["NodeNames"] is None
    names = {"PodName": "small", "PodNamespace": "default", "PodUID": "small", "Node": "gpu1"}
    assert words in client.post("bind", names)["Error"]
    victims = {"Pod": POD, "NodeNameToMetaVictims": {}}
    assert words in client.post("preempt", victims, 503)["Error"]
    assert client.get("/v1/cluster")["nodes"] == before["nodes"]


def test_every_get_is_answered_in_the_form_of_its_schema(client: Client) -> None:
    for path, schema in (
        ("/v1/cluster", "v1-cluster"),
        ("/v1/decisions", "v1-decisions"),
        ("/v1/explain/default/big", "explain"),
        ("/v1/explain/default/held", "explain"),
    ):
        assert schemas.problems(schemas.load(schema), client.get(path)) == []
    held = client.get("/v1/cluster")["nodes"][0]["pods"]
    assert [each["name"] for each in held] == ["held"]
    assert client.get("/v1/cluster")["quotas"][0]["namespace"] == "other"
    for path in ("/readyz", "/metrics", "/version", "/"):
        client.get(path)


def test_a_reservation_of_long_ago_lasts(tmp_path: Path) -> None:
    """A file's time stands still while the clock runs."""
    reserved = snapshots.pod("held", 100, 0, held=True)
    del reserved["spec"]["nodeName"]
    client = Client(snapshots.write(tmp_path, snapshots.node(), reserved))
    (found,) = client.get("/v1/cluster")["nodes"][0]["pods"]
    assert found["bound"] is False


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (None, "No such file"),
        ("", "is empty"),
        ("{", "snapshot.json:1:2: is not JSON"),
        ("[]", "kind: must be"),
        ('{"kind": "List"}', "items: must be an array"),
        ('{"kind": "List", "items": [{"kind": "Pod"}]}', "items[0].metadata.name: is missing"),
        (
            '{"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "p"}, '
            '"spec": {"priority": "high"}}]}',
            "items[0] (pod p): not an object of the API: Expected `int | null`",
        ),
        (
            '{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n", '
            '"annotations": {"tencent.com/gpu-devices": "{}"}}}]}',
            "items[0] (node n): annotation tencent.com/gpu-devices",
        ),
        (
            '{"kind": "List", "items": [{"kind": "ConfigMap", "metadata": {"name": "gpuquota", '
            '"namespace": "kube-system"}, "data": {"gpu_quota": "{"}}]}',
            "items[0] (configmap kube-system/gpuquota): data.gpu_quota",
        ),
    ],
)
def test_a_bad_file_is_one_line_that_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, place: str
) -> None:
    path = tmp_path / "snapshot.json"
    if text is not None:
        path.write_text(text)
    assert main(["--snapshot", str(path), "--check-config"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert place in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "127.0.0.1:1"], "--listen goes with --snapshot"),
        (["--snapshot", "FILE", "--listen", "nowhere"], "--listen: listen: 'nowhere'"),
        (["--snapshot", "FILE", "--listen", "0.0.0.0:3456"], "is not a loopback address"),
    ],
)
def test_a_wrong_address_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    path = snapshots.write(tmp_path, snapshots.node())
    given = [path if each == "FILE" else each for each in arguments]
    try:
        status: object = main(given)
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert words in capsys.readouterr().err


def test_check_config_of_a_good_file_serves_nothing(tmp_path: Path) -> None:
    path = snapshots.write(tmp_path, snapshots.node())
    assert main(["--snapshot", path, "--check-config"]) == 0


def test_the_command_serves_a_file_without_any_cluster(tmp_path: Path) -> None:
    path = snapshots.write(tmp_path, snapshots.node(), snapshots.pod("big", 400, 0))
    with of_snapshot(path, tmp_path) as process:
        process.says(f"serving a snapshot file={path} nodes=1 pods=1")
        assert process.call("GET", "/v1/explain/default/big").body["fits"] is False
        body = json.dumps({"Pod": snapshots.pod("new", 40, 8), "NodeNames": NODES}).encode()
        assert process.call("POST", "/scheduler/filter", body).body["NodeNames"] == NODES
        assert process.stop() == 0
