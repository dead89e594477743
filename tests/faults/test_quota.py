"""The quota's ConfigMap breaks in every way while pods are placed, goes, and is mended."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpustack.adapters.kube import KubeError
from tests.cluster.kubectl import Kubectl, wait_for
from tests.control_plane import extending, fleet
from tests.faults import load
from tests.faults.stage import Stage
from tests.testbed.artifacts import kubernetes

pytestmark = pytest.mark.testbed

NAME, NAMESPACE = "gpuquota", "kube-system"
TEAM = "limited"
GOOD = {TEAM: {"quota": {"A100": 0.2}, "pool": []}}  # less than a waiting pod of the fleet asks
BROKEN: list[tuple[object, str]] = [
    ("{", "is not JSON"),
    ("", "is not JSON"),
    (f'{{"{TEAM}": {{}}, "{TEAM}": {{}}}}', "stands twice"),
    ({TEAM: {"quotas": {"A100": 1}}}, "quotas"),
    ({TEAM: {"quota": {"A100": "much"}}}, f"{TEAM}.quota.A100"),
    ({TEAM: {"quota": {"A100": -1}}}, f"{TEAM}.quota.A100"),
    ({TEAM: {"quota": {"A100": 0.123}}}, "more than two decimals"),
    ([], "data.gpu_quota"),
]


class Team:
    """A namespace with a quota, and a pod in it that the quota has no room for."""

    def __init__(self, stage: Stage, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._client = stage.client
        with contextlib.suppress(KubeError):  # it is there since the test before
            self._client.post("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        pod = fleet.waiting_pod(stage.folder.name.replace("_", "-"))
        pod["metadata"]["namespace"] = TEAM
        self._pod = self._client.post(f"/api/v1/namespaces/{TEAM}/pods", pod)

    def quota(self, said: object) -> None:
        """Let the ConfigMap say this; a text as it stands."""
        text = said if isinstance(said, str) else json.dumps(said)
        metadata = {"name": NAME, "namespace": NAMESPACE}
        self._kubectl.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"gpu_quota": text},
            }
        )

    def no_quota(self) -> None:
        """Delete it."""
        self._kubectl.run(
            "delete", "configmap", NAME, f"--namespace={NAMESPACE}", "--ignore-not-found"
        )

    def events(self) -> list[str]:
        """Return what the ConfigMap's Events say."""
        path = f"/api/v1/namespaces/{NAMESPACE}/events"
        selector = {"fieldSelector": f"involvedObject.name={NAME},reason=QuotaUnreadable"}
        return [each["message"] for each in self._client.get(path, selector)["items"]]

    def answer(self, extender: extending.RunningExtender) -> str:
        """Ask where the pod may go; returns the error or the refusals, empty where it may go."""
        body = json.dumps({"Pod": self._pod, "NodeNames": load.NODES}).encode()
        with contextlib.closing(extender.connect()) as connection:
            found: dict[str, Any] = extending.call(connection, "/scheduler/filter", body)
        refusals = found["FailedAndUnresolvableNodes"] or {}
        return str(found["Error"] or "; ".join(refusals.values()))

    def hears(self, extender: extending.RunningExtender, words: str) -> None:
        """Wait until the pod's answer has these words in it; without words, until it may go."""

        def told() -> bool:
            answer = self.answer(extender)
            return words in answer if words else not answer

        wait_for(f"the answer {words!r}", told, seconds=load.RECOVERY_SECONDS)


@pytest.fixture
def team(stage: Stage) -> Iterator[Team]:
    binary = kubernetes.CURRENT.bin / "kubectl"
    team = Team(stage, Kubectl(binary=binary, kubeconfig=stage.control.admin))
    yield team
    team.no_quota()


def valid(extender: extending.RunningExtender) -> bool:
    text = extender.get("/metrics")[1].decode()
    return "gpustack_quota_config_valid 1.0" in text


def breaks(team: Team, extender: extending.RunningExtender, said: object, words: str) -> None:
    """Break it, and wait until it is said everywhere what is wrong."""
    team.quota(said)
    seconds = load.RECOVERY_SECONDS
    wait_for("the metric", lambda: not valid(extender), seconds=seconds)
    log = extender.process.log
    wait_for(f"{words!r} in the log", lambda: words in log.read_text(), seconds=seconds)
    wait_for(
        f"an Event with {words!r}",
        lambda: any(words in message for message in team.events()),
        seconds=seconds,
    )


def test_a_broken_quota_is_named_and_the_last_good_one_stays_in_force(
    stage: Stage, team: Team
) -> None:
    team.quota(GOOD)
    with stage.loaded("quota") as (extender, pods):
        team.hears(extender, "QuotaExceeded")
        for said, words in BROKEN:
            breaks(team, extender, said, words)
            assert "QuotaExceeded" in team.answer(extender)
            pods.recovers()
        team.quota({})
        team.hears(extender, "")
        assert valid(extender)


def test_a_broken_quota_that_is_deleted_limits_no_pod(stage: Stage, team: Team) -> None:
    team.quota(GOOD)
    with stage.loaded("gone-quota") as (extender, pods):
        team.hears(extender, "QuotaExceeded")
        breaks(team, extender, "[", "is not JSON")
        team.no_quota()
        team.hears(extender, "")
        assert valid(extender)
        team.quota(GOOD)
        team.hears(extender, "QuotaExceeded")
        team.no_quota()
        team.hears(extender, "")
        pods.recovers()


def test_a_broken_quota_refuses_every_share_where_the_operator_wants_that(
    stage: Stage, team: Team
) -> None:
    team.quota({})
    quota = {"on_error": "deny"}
    with stage.extender(quota=quota) as extender:
        team.hears(extender, "")
        breaks(team, extender, {TEAM: {"pools": []}}, "pools")
        team.hears(extender, "the quota can't be used")
        assert extender.get("/healthz")[0] == 200
        team.quota(GOOD)
        team.hears(extender, "QuotaExceeded")


def test_a_quota_that_could_never_be_read_refuses_until_it_is_mended(
    stage: Stage, team: Team
) -> None:
    team.quota("no JSON")
    with stage.extender() as extender:
        team.hears(extender, "the quota can't be used")
        assert not valid(extender)
        team.quota({})
        team.hears(extender, "")
