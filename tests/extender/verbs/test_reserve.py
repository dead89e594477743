"""The answer for a pod that changes while its cards are chosen."""

from dataclasses import replace
from typing import Any

import pytest

from extender.cache.node_evaluator import NodeEvaluator
from extender.errors import CannotDecide
from extender.requeue.requeue import Requeue
from extender.verbs.reserve import Reserver
from gpustack.model.node import Node
from gpustack.model.request import BadRequest, ContainerRequest, PodRequest
from tests.extender.states import known, view, waiting
from tests.model.machines import card, pod


def test_a_pod_whose_user_key_turns_bad_gets_an_error_with_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = view()
    answers = NodeEvaluator(seen)
    chooser = Reserver(seen, answers, Requeue(writer=None, cache=seen, evaluator=answers))  # type: ignore[arg-type]
    seen.set_node(known(Node(name="n0", cards=(card(0),))))
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
    seen = view()
    answers = NodeEvaluator(seen)
    chooser = Reserver(seen, answers, Requeue(writer=None, cache=seen, evaluator=answers))  # type: ignore[arg-type]
    seen.set_node(known(Node(name="n0", cards=(card(0),))))
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
