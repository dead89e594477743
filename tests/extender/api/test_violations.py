"""What nodes say of their containers stands at the pods in `/v1`, and nowhere else."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.wire import violations
from gpustack.wire.violations import ShareViolation
from tests.agent.host import Host
from tests.agent.violations.test_killed_pods import damage
from tests.extender.api.test_api import cluster, explained, machine
from tests.extender.calls import bound, filter_nodes
from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster, pod, serving

SINCE = "2026-11-29T04:35:11Z"


def say(mini: MiniCluster, node: str, text: str | None) -> None:
    mini.api.edit("nodes", node, {"metadata": {"annotations": {KEYS.gpu_violations: text}}})
    eventually(lambda: mini.service.cache.violations(node)[:99] == (text or "")[:99])


def found(uid: str, container: str = "main", reason: str = "ShareExceeded") -> ShareViolation:
    return ShareViolation(uid=uid, container=container, reason=reason, since=SINCE)


def shown(mini: MiniCluster, name: str) -> list[Any]:
    """Return the violations of the pods of a node, each with its pod."""
    pods = machine(cluster(mini), name)["pods"]
    return [{"pod": each["name"], **it} for each in pods for it in each["violations"]]


def violation(seen: dict[str, str]) -> dict[str, str]:
    return {name: seen[name] for name in ("container", "reason", "since")}


@pytest.fixture
def uid(mini: MiniCluster) -> str:
    """A pod with 40 % of a card of gpu1, and its container `main`."""
    return str(bound(mini, "a", "gpu1", 40, 32)["metadata"]["uid"])


def test_a_violation_stands_at_its_pod_as_long_as_its_node_says_it(
    mini: MiniCluster, uid: str
) -> None:
    assert shown(mini, "gpu1") == []
    say(mini, "gpu1", violations.encode([found(uid)]))
    expected = {"pod": "a", "container": "main", "reason": "ShareExceeded", "since": SINCE}
    assert shown(mini, "gpu1") == [expected]
    (note,) = explained(mini, "a")["notes"]
    assert note.startswith(f"container main: ShareExceeded since {SINCE}")
    say(mini, "gpu1", None)
    assert shown(mini, "gpu1") == []
    assert explained(mini, "a")["notes"] == []


def test_a_node_is_heard_about_the_pods_bound_to_it_alone(mini: MiniCluster, uid: str) -> None:
    mini.place("b", 100)
    other = mini.api.get("pods", "b")["metadata"]["uid"]
    lies = [found(uid), found(uid, "another"), found(other), found("unknown")]
    say(mini, "gpu2", violations.encode(lies))
    assert shown(mini, "gpu2") == shown(mini, "gpu1") == []
    assert explained(mini, "a")["notes"] == []
    say(mini, "gpu1", violations.encode(lies))
    assert [(each["pod"], each["container"]) for each in shown(mini, "gpu1")] == [("a", "main")]


@pytest.mark.parametrize("text", ["no JSON", "[" * 9000, '{"version":2,"violations":[]}'])
def test_a_list_that_cannot_be_read_is_left_out_and_the_node_stays(
    mini: MiniCluster, uid: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    say(mini, "gpu1", text)
    assert shown(mini, "gpu1") == []
    assert len(machine(cluster(mini), "gpu1")["cards"]) == 2
    mini.api.edit("nodes", "gpu2", {"spec": {"unschedulable": True}})
    assert "gpu1" in filter_nodes(mini, mini.create(pod("next", 20, 16)))["NodeNames"]
    told = [each for each in caplog.messages if "violations are left out node=gpu1" in each]
    assert len(told) == 1, "once, although the page asks every few seconds"


def test_a_violation_changes_no_answer_to_the_scheduler(mini: MiniCluster, uid: str) -> None:
    """Nodes are remembered by a number of their state; a tenant could have all forgotten."""
    cache = mini.service.cache
    before = cache.allocations.version, cache.rooms, cache.base("gpu1")
    say(mini, "gpu1", violations.encode([found(uid)]))
    assert (cache.allocations.version, cache.rooms, cache.base("gpu1")) == before
    mini.api.delete("nodes", "gpu1")
    eventually(lambda: cache.violations("gpu1") == "")


def test_a_tenants_doing_comes_from_its_host_to_those_who_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Host(tmp_path) as host, serving(host.api, tmp_path) as mini:
        host.start_agent()
        damage(host, host.share("taker"))
        host.share("honest", minor=0)
        eventually(lambda: shown(mini, "gpu1") != [])
        (seen,) = shown(mini, "gpu1")
        assert (seen["pod"], seen["container"], seen["reason"]) == ("taker", "c0", "LedgerDamaged")
        config = ["--kubeconfig", str(host.api.write_kubeconfig(tmp_path / "user"))]
        assert main(["get", "pods", "-o", "json", *config]) == 0
        pods = json.loads(capsys.readouterr().out)["pods"]
        assert [each["violations"] for each in pods] == [[], [violation(seen)]]
        assert main(["get", "pods", *config]) == 0
        assert "LedgerDamaged (c0)" in capsys.readouterr().out
        assert main(["explain", "taker", *config]) == 0
        assert "container c0: LedgerDamaged since 20" in capsys.readouterr().out
