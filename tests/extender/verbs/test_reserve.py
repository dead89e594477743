"""The answer for a pod that changes, or whose node does, while its cards are chosen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extender.cache.cache import ClusterCache
from extender.cache.node_evaluator import NodeEvaluator
from extender.errors import CannotDecide
from extender.requeue.requeue import Requeue
from extender.verbs.reserve import Reserver
from gpustack.model.equivalence import ResultTable
from gpustack.model.node import Node
from gpustack.model.request import BadRequest, ContainerRequest, PodRequest
from tests.extender import mini_cluster
from tests.extender.calls import bind
from tests.extender.states import bound, known, view, waiting
from tests.extender.verbs.search_clock import SearchClock
from tests.fakes.kube_api import FakeKubeApi
from tests.model.machines import card, pod


def one_card() -> tuple[ClusterCache, NodeEvaluator, Reserver]:
    """Return what chooses on a cluster of one card, on node n0."""
    seen = view()
    answers = NodeEvaluator(seen)
    chooser = Reserver(seen, answers, Requeue(writer=None, cache=seen, evaluator=answers))  # type: ignore[arg-type]
    seen.set_node(known(Node(name="n0", cards=(card(0),))))
    return seen, answers, chooser


def test_a_pod_whose_user_key_turns_bad_gets_an_error_with_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, answers, chooser = one_card()
    share = ContainerRequest(name="main", index=0, cores=50, memory_units=8)
    asked = waiting("p", PodRequest(containers=(share,)))
    seen.pod_event("ADDED", asked)
    problem = BadRequest("metadata.annotations[tencent.com/gpu-model]", "has an empty name")
    of = answers.of

    def spoilt(*arguments: Any) -> Any:
        bad = replace(asked, version=asked.version + 1, request=None, shape=None, problem=problem)
        seen.pod_event("MODIFIED", bad)
        return of(*arguments)

    monkeypatch.setattr(answers, "of", spoilt)
    with pytest.raises(CannotDecide, match=r"gpu-model\]: has an empty name") as caught:
        chooser.choose(asked, ("n0",))
    assert caught.value.code == "BadRequest"


def test_a_pod_that_changes_all_the_time_delays_no_others_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where something changes meanwhile, one decides after another: it would be tried 20 times."""
    seen, answers, chooser = one_card()
    asked = waiting("p", pod((50, 8)))
    seen.pod_event("ADDED", asked)
    of, called = answers.of, []

    def changing(*arguments: Any) -> Any:
        called.append(arguments)
        seen.pod_event("MODIFIED", waiting("p", pod((50, 8 + len(called)))))
        return of(*arguments)

    monkeypatch.setattr(answers, "of", changing)
    with pytest.raises(CannotDecide, match="changed while its cards were chosen") as caught:
        chooser.choose(asked, ("n0",))
    assert caught.value.code == "Busy"
    assert len(called) == 1


def test_a_node_that_changes_all_the_time_ends_a_binding(
    api: FakeKubeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's small pods change it; cards of an odd pod were searched for 0.3 s each time."""
    clock, of, ask = SearchClock(), NodeEvaluator.of, ResultTable.ask
    api.create("nodes", mini_cluster.node("gpu0"))
    with mini_cluster.serving(api, tmp_path, clock=clock) as mini:
        asked = mini.create(mini_cluster.pod("odd", 50, 32))
        seen = mini.service.cache

        def searched(*arguments: Any) -> Any:
            clock.seconds += 0.3
            return ask(*arguments)

        def changing(*arguments: Any) -> Any:
            said = of(*arguments)
            bound(seen, f"small{len(seen.pods)}", pod((1, 1)), "gpu0")
            return said

        monkeypatch.setattr(ResultTable, "ask", searched)
        monkeypatch.setattr(NodeEvaluator, "of", changing)
        began = clock()
        assert "NotSearched" in bind(mini, asked, "gpu0")
        assert clock() - began < 2


def test_a_pod_is_bound_though_its_namespace_has_used_its_time_up(
    api: FakeKubeApi, tmp_path: Path
) -> None:
    api.create("nodes", mini_cluster.node("gpu0"))
    with mini_cluster.serving(api, tmp_path, clock=SearchClock()) as mini:
        asked = mini.create(mini_cluster.pod("p", 50, 32))
        mini.service._search_shares.use("default", 1e3)
        assert bind(mini, asked, "gpu0") == ""
