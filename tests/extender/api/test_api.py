"""`/v1`: answers to the page and other programs, always in the form of their schema."""

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from extender.api import v1
from extender.api.app import create_app
from gpustack.cli import main as cli
from gpustack.model.codes import MEANINGS
from gpustack.wire import schemas
from tests.cli import snapshots
from tests.extender.calls import bind, bound, filter_nodes, preempt
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, node, pod, serving
from tests.fakes.kube_api import FakeKubeApi


def get(mini: MiniCluster, path: str, schema: str) -> Any:
    answer = mini.call("GET", f"/v1/{path}")
    assert answer.status == 200, answer.raw
    assert schemas.problems(schemas.load(schema), answer.body) == []
    return answer.body


def cluster(mini: MiniCluster) -> Any:
    return get(mini, "cluster", "v1-cluster")


def decisions(mini: MiniCluster) -> Any:
    return get(mini, "decisions", "v1-decisions")["decisions"]


def explained(mini: MiniCluster, name: str) -> Any:
    return get(mini, f"explain/default/{name}", "explain")


def machine(value: Any, name: str) -> Any:
    return next(each for each in value["nodes"] if each["name"] == name)


def test_the_cluster_shows_each_card_and_the_holders_of_its_parts(mini: MiniCluster) -> None:
    bound(mini, "a", "gpu1", 40, 32)
    mini.place("b", 100)
    found = machine(cluster(mini), "gpu1")
    assert [card["cores_used"] for card in found["cards"]] == [40, 100]
    assert found["cards"][0]["memory_units_used"] == 32
    assert found["links"] == [["X", "NV12"], ["NV12", "X"]]
    held = {each["name"]: (each["bound"], each["cards"]) for each in found["pods"]}
    assert held["a"] == (True, [{"minor": 0, "cores": 40, "memory_units": 32}])
    assert held["b"][0] is False
    assert machine(cluster(mini), "cpu1")["cards"] == []


def test_the_cluster_follows_every_change(mini: MiniCluster) -> None:
    bound(mini, "a", "gpu1", 40, 32)
    assert machine(cluster(mini), "gpu1")["pods"]
    mini.end("a")
    eventually(lambda: machine(cluster(mini), "gpu1")["pods"][0]["leaving"])
    mini.api.delete("pods", "a")
    eventually(lambda: machine(cluster(mini), "gpu1")["pods"] == [])
    mini.api.edit("nodes", "gpu1", {"spec": {"unschedulable": True}})
    eventually(lambda: machine(cluster(mini), "gpu1")["cordoned"])


def test_every_reason_is_told_with_its_cure(mini: MiniCluster) -> None:
    told = get(mini, "reasons", "v1-reasons")
    assert told == {code: dataclasses.asdict(each) for code, each in MEANINGS.items()}


def test_a_waiting_pod_has_its_age_and_its_owner(mini: MiniCluster) -> None:
    made = pod("made", 400)
    owners = [{"kind": "Node", "name": "no"}, {"kind": "Job", "name": "train", "controller": True}]
    created = "2026-11-29T12:00:00Z"
    made["metadata"] |= {"ownerReferences": owners, "creationTimestamp": created}
    mini.create(made)
    eventually(lambda: len(cluster(mini)["waiting"]) == 1)
    (waiting,) = cluster(mini)["waiting"]
    assert waiting["owner"] == "Job/train"
    assert waiting["created"] == "2026-11-29T12:00:00.000Z"


def test_a_waiting_pod_is_shown_with_its_last_refusal(mini: MiniCluster) -> None:
    asked = mini.create(pod("big", 400))
    eventually(lambda: len(cluster(mini)["waiting"]) == 1)
    assert cluster(mini)["waiting"][0]["refusal"] is None
    filter_nodes(mini, asked)
    (waiting,) = cluster(mini)["waiting"]
    assert waiting["request"]["containers"][0]["cores"] == 400
    assert waiting["refusal"]["code"] == "NoWholeCard"
    assert waiting["refusal"]["reasons"] == {"NoWholeCard": 2, "NoCards": 1}
    assert waiting["refusal"]["nodes"] == 3


def test_a_bad_request_says_what_is_wrong_with_it(mini: MiniCluster) -> None:
    mini.place("bad", 150)
    (waiting,) = cluster(mini)["waiting"]
    assert "150" in waiting["problem"]
    assert waiting["refusal"]["code"] == "BadRequest"
    found = explained(mini, "bad")
    assert found["fits"] is False
    assert {each["code"] for each in found["nodes"].values()} == {"BadRequest"}
    assert "spec.containers[0]" in found["notes"][0]


def test_a_byte_quantity_is_shown_before_the_scheduler_asks(mini: MiniCluster) -> None:
    mini.create(pod("bytes", 50, "8Gi"))
    eventually(lambda: len(cluster(mini)["waiting"]) == 1)
    told = "asks 8589934592 units of 256 MiB (2 EiB); for 8 GiB write 32"
    assert told in cluster(mini)["waiting"][0]["problem"]
    assert told in explained(mini, "bytes")["notes"][0]


def test_quotas_are_shown_with_their_usage(api: FakeKubeApi, tmp_path: Path) -> None:
    api.create("nodes", node("gpu1"))
    text = json.dumps({"default": {"quota": {"A100": 1.5}}})
    api.create("configmaps", snapshots.quota(text))
    with serving(api, tmp_path) as mini:
        bound(mini, "a", "gpu1", 40, 32)
        (found,) = cluster(mini)["quotas"]
        assert found["models"][0]["cards"] == 1.5
        assert found["models"][0]["used"] == 0.4
        assert found["models"][0]["pods"] == [{"name": "a", "cards": 0.4}]
        api.edit("configmaps", "gpuquota", {"data": {"gpu_quota": "{"}}, namespace="kube-system")
        eventually(lambda: "is not JSON" in cluster(mini)["quota_problem"])


def test_decisions_show_the_request_the_nodes_and_the_cards(mini: MiniCluster) -> None:
    asked = mini.create(pod("p", 100))
    filter_nodes(mini, asked)
    assert bind(mini, asked, "gpu2") == ""
    filter_nodes(mini, mini.create(pod("big", 400)))
    refused, done, fits = decisions(mini)[:3]
    assert (fits["verb"], fits["outcome"], fits["nodes"]) == ("filter", "Fits", 3)
    assert fits["reasons"] == {"NoCards": 1}
    assert (done["verb"], done["outcome"]) == ("bind", "Bound")
    assert done["chosen"]["node"] == "gpu2"
    assert done["chosen"]["containers"][0]["minors"] == [0]
    assert done["uid"] == asked["metadata"]["uid"]
    assert refused["outcome"] == "NoWholeCard"
    assert refused["chosen"] is None
    assert 0 < refused["seconds"] < 5


def test_errors_are_decisions_too_and_name_the_pod(mini: MiniCluster) -> None:
    bound(mini, "a", "gpu1", 200)
    asked = mini.create(pod("p", 100))
    assert "does not fit on node gpu1" in bind(mini, asked, "gpu1")
    last = decisions(mini)[0]
    assert (last["outcome"], last["name"], last["chosen"]) == ("Overtaken", "p", None)
    assert "gpu1" in last["message"]


def test_preemption_is_a_decision(mini: MiniCluster) -> None:
    for name, where in (("a", "gpu1"), ("b", "gpu2")):
        bound(mini, name, where, 200)
    asked = mini.create(pod("high", 200, priority=1000))
    preempt(mini, asked, {"gpu1": ["a"]})
    assert decisions(mini)[0]["outcome"] == "Preempting"
    assert decisions(mini)[0]["message"] == "victims are named on 1 of 1 nodes"


@pytest.mark.long
def test_the_record_is_bounded_and_keeps_the_newest(mini: MiniCluster) -> None:
    asked = mini.create(pod("p", 40, 32))
    for _ in range(510):
        filter_nodes(mini, asked, ["gpu1"])
    numbers = [each["number"] for each in decisions(mini)]
    assert numbers == list(range(510, 10, -1))


def test_pods_without_gpu_leave_no_record(mini: MiniCluster) -> None:
    filter_nodes(mini, mini.create(pod("p")))
    assert decisions(mini) == []


@pytest.mark.parametrize("name", ["waiting", "held", "reserved", "fitting", "tainted"])
def test_the_extender_explains_a_pod_as_the_command_line_does(
    mini: MiniCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    mini.api.edit("nodes", "gpu2", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
    tolerant = [{"operator": "Exists"}]
    bound(mini, "held", "gpu1", 40, 32)
    mini.ask(mini.create(pod("reserved", 100)), ["gpu2"])
    mini.create(pod("waiting", 400))
    mini.create(pod("fitting", 30, 16, tolerations=tolerant))
    mini.create(pod("tainted", 100, nodeSelector={"disk": "fast"}))
    eventually(lambda: len(cluster(mini)["waiting"]) == 3)
    eventually(lambda: machine(cluster(mini), "gpu2")["taints"] == ["k:NoSchedule"])
    items = [
        {"kind": kind, **each}
        for kind, plural in (("Node", "nodes"), ("Pod", "pods"))
        for each in mini.api.store.list(plural)[1]
    ]
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    cli.main(["explain", name, "--snapshot", str(path), "-o", "json"])
    assert explained(mini, name) == json.loads(capsys.readouterr().out)


def test_the_explanation_names_no_node_that_a_nominated_pod_waits_for(mini: MiniCluster) -> None:
    """The room that a nominated pod waits for is no room for others."""
    mini.create(pod("first", 200, priority=10))
    mini.api.edit("pods", "first", {"status": {"nominatedNodeName": "gpu1"}})
    bound(mini, "a", "gpu2", 200)
    mini.create(pod("second", 100))
    eventually(lambda: len(cluster(mini)["waiting"]) == 2)
    eventually(lambda: explained(mini, "second")["fits"] is False)
    assert explained(mini, "second")["nodes"]["gpu1"]["code"] == "NoWholeCard"


@pytest.mark.parametrize(
    "path", ["default/nobody", "nowhere/held", "default/plain", "default/done", "a%2Fb/%00"]
)
def test_a_pod_that_is_not_known_is_404_with_its_name(mini: MiniCluster, path: str) -> None:
    mini.create(pod("plain"))
    mini.create(pod("done", 40, 32))
    mini.api.edit("pods", "done", {"status": {"phase": "Succeeded"}})
    eventually(lambda: mini.call("GET", "/v1/explain/default/done").status == 404)
    answer = mini.call("GET", f"/v1/explain/{path}")
    assert answer.status == 404
    assert answer.body["Error"]


def test_an_unchanged_answer_is_sent_once(mini: MiniCluster) -> None:
    client = create_app(mini.service, request_limit_bytes=1 << 20).test_client()
    first = client.get("/v1/cluster")
    again = client.get("/v1/cluster", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    bound(mini, "a", "gpu1", 40, 32)
    changed = client.get("/v1/cluster", headers={"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200


def test_a_date_that_no_clock_has_gets_the_answer_of_any(mini: MiniCluster) -> None:
    """The standard library raises an OverflowError for it, which is no ValueError."""
    client = create_app(mini.service, request_limit_bytes=1 << 20).test_client()
    dated = {"If-Modified-Since": "1 Jan 99999999999 00:00:00 GMT"}
    assert client.get("/v1/cluster", headers=dated).status_code == 200


def test_a_pod_that_takes_too_long_to_explain_keeps_no_other_waiting(
    mini: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("odd", "usual"):
        mini.sees(mini.create(pod(name, 300)))
    bound(mini, "runs", "gpu1", 40, 32)
    monkeypatch.setattr(v1, "_LONGEST_SECONDS", -1.0)
    for name in ("odd", "runs"):
        answer = mini.call("GET", f"/v1/explain/default/{name}")
        assert answer.status == 503
        assert f"TakesTooLong: pod default/{name} is not explained in" in answer.body["Error"]
    monkeypatch.undo()
    assert explained(mini, "usual")["fits"] is False


def test_a_search_never_takes_all_threads(
    mini: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One search runs at a time; another request for one gets 503."""
    mini.create(pod("big", 400))
    eventually(lambda: len(cluster(mini)["waiting"]) == 1)
    take, inside, go = mini.service.snapshotter.take, threading.Event(), threading.Event()

    def slow(*args: Any) -> Any:
        inside.set()
        assert go.wait(10)
        return take(*args)

    monkeypatch.setattr(mini.service.snapshotter, "take", slow)
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(mini.call("GET", "/v1/explain/default/big").status)

    thread = threading.Thread(target=ask)
    thread.start()
    assert inside.wait(10)
    answer = mini.call("GET", "/v1/explain/default/big")
    assert (answer.status, "ask again" in answer.body["Error"]) == (503, True)
    go.set()
    thread.join()
    assert statuses == [200]
    assert mini.call("GET", "/v1/explain/default/big").status == 200
