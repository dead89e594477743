"""How long the answer of a refused bind is held back."""

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.api.scheduler_api import SchedulerApi
from extender.verbs.bind_backoff import BindBackoff
from tests.extender.calls import args
from tests.extender.mini_cluster import MiniCluster, pod

MOST = 4096
NOW, LATE = 1000.0, math.inf

# eighths of a second, which floats have exactly
SECONDS = st.integers(0, 40).map(lambda eighths: eighths / 8)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@given(asked=st.lists(st.tuples(st.sampled_from("abc"), SECONDS, SECONDS)))
def test_refusals_of_a_pod_are_answered_a_second_apart(
    asked: list[tuple[str, float, float]],
) -> None:
    """Each is asked for some time after the one before, and has some time to be answered."""
    clock = Clock()
    backoff = BindBackoff(clock)
    answered: dict[str, float] = {}
    for uid, passed, left in asked:
        clock.now += passed
        held = backoff.refuse(uid, clock.now + left)
        assert 0 <= held <= left
        since = clock.now + held - answered.get(uid, -math.inf)
        assert since >= 1 or held == left
        assert held == 0 or since <= 1
        answered[uid] = clock.now + held


def test_an_answer_is_not_held_beyond_a_time_that_is_over() -> None:
    backoff = BindBackoff(Clock())
    assert [backoff.refuse("a", NOW - 1) for _ in range(3)] == [0, 0, 0]


def test_at_most_4096_pods_are_remembered_and_each_for_a_second() -> None:
    clock = Clock()
    backoff = BindBackoff(clock)
    for at in range(MOST + 1):
        assert backoff.refuse(str(at), LATE) == 0
    assert backoff.refuse("1", LATE) == 1
    assert backoff.refuse("0", LATE) == 0
    assert len(backoff._answered) == MOST
    clock.now += 2
    assert backoff.refuse("a", LATE) == 0
    assert list(backoff._answered) == ["a"]


def test_only_refused_binds_of_the_same_pod_are_held(mini: MiniCluster) -> None:
    mini.service.bind_backoff = BindBackoff(lambda: 0.0)
    calls = SchedulerApi(mini.service)

    def held(verb: str, body: dict[str, Any]) -> float:
        return calls.answer(f"/scheduler/{verb}", json.dumps(body).encode()).hold_seconds

    def bind(asked: dict[str, Any], node: str) -> float:
        named = {f"Pod{key.title()}": asked["metadata"][key] for key in ("name", "namespace")}
        return held("bind", {**named, "PodUID": asked["metadata"]["uid"], "Node": node})

    first, second, large = (mini.create(pod(name, 200)) for name in ("a", "b", "c"))
    assert [bind(first, "gpu1"), bind(first, "gpu1")] == [0, 0]
    assert [bind(second, "gpu1"), bind(second, "gpu1"), bind(large, "gpu1")] == [0, 1, 0]
    assert bind(second, "gpu2") == 0
    assert [held("filter", args(mini, large, None)) for _ in range(2)] == [0, 0]
    assert [held("bind", {}) for _ in range(2)] == [0, 0]
