"""A node whose kubelet has lost the agent is named, in `/v1` and to those who wait."""

from typing import Any

import pytest

from tests.extender.client import eventually
from tests.extender.mini_cluster import KEYS, MiniCluster, pod


def of(mini: MiniCluster, name: str) -> Any:
    nodes = mini.call("GET", "/v1/cluster").body["nodes"]
    return next(each for each in nodes if each["name"] == name)["states"]


@pytest.mark.parametrize("amount", ["0", None])
def test_a_silent_agent_is_a_state_and_a_reason(mini: MiniCluster, amount: str | None) -> None:
    assert of(mini, "gpu1") == []
    offered = {"status": {"allocatable": {KEYS.vcuda_core: amount}}}
    mini.api.edit("nodes", "gpu1", offered)
    eventually(lambda: of(mini, "gpu1") == ["AgentSilent"])
    mini.sees(mini.create(pod("web", 50, 8)))
    answer = mini.call("GET", "/v1/explain/default/web").body["nodes"]["gpu1"]
    assert answer["code"] == "AgentSilent"
    assert answer["message"] == (
        "the agent of node gpu1 is silent: its kubelet offers none of its cards"
    )
    mini.api.edit("nodes", "gpu1", {"status": {"allocatable": {KEYS.vcuda_core: "200"}}})
    eventually(lambda: of(mini, "gpu1") == [])
