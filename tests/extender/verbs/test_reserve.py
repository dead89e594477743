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
from tests.model.machines import card


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
