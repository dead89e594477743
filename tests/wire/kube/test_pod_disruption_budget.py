"""Which pods a PodDisruptionBudget protects, counted as kube-scheduler counts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from gpustack.wire.kube.pod_disruption_budget import (
    Budget,
    Budgets,
    decode_budget,
    violating,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    uid: str
    labels: dict[str, str] = field(default_factory=lambda: {"app": "web"})
    namespace: str = "team"

    @property
    def name(self) -> str:
        return f"pod-{self.uid}"


def budget(
    selector: object = None,
    allowed: int = 0,
    *,
    namespace: str = "team",
    name: str = "pdb",
    **status: object,
) -> Budget:
    wanted = {"matchLabels": {"app": "web"}} if selector is None else selector
    value: dict[str, Any] = {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"minAvailable": 1, "selector": wanted},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    return decode_budget(value)


def expression(operator: str, *values: str, key: str = "app") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


PODS = [Pod(uid="a"), Pod(uid="b"), Pod(uid="c")]


@hypothesis.given(st.integers(-1, 5))
def test_the_most_important_pods_use_the_budget_and_the_rest_violate_it(allowed: int) -> None:
    expected = {pod.uid for pod in PODS[max(0, allowed) :]}
    assert violating(PODS, Budgets([budget(allowed=allowed)])) == expected


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({"matchLabels": {"app": "web"}}, {"app": "web", "x": "y"}, True),
        ({"matchLabels": {"app": "web", "x": "y"}}, {"app": "web"}, False),
        (expression("In", "web", "db"), {"app": "db"}, True),
        (expression("In", "web"), {"x": "web"}, False),
        (expression("NotIn", "web"), {"x": "y"}, True),
        (expression("NotIn", "web"), {"app": "web"}, False),
        (expression("Exists"), {"app": ""}, True),
        (expression("Exists"), {"x": "y"}, False),
        (expression("DoesNotExist"), {"x": "y"}, True),
        (expression("DoesNotExist"), {"app": "web"}, False),
        (expression("Like", "w*"), {"app": "web"}, False),
        ({}, {"app": "web"}, False),
        (expression("DoesNotExist"), {}, False),
    ],
)
def test_selectors_mean_what_they_mean_to_the_scheduler(
    selector: object, labels: dict[str, str], selected: bool
) -> None:
    pods = [Pod(uid="a", labels=labels)]
    assert violating(pods, Budgets([budget(selector)])) == ({"a"} if selected else set())


def test_another_namespace_and_pods_that_end_already_are_not_counted() -> None:
    assert not violating(PODS, Budgets([budget(namespace="other")]))
    ending = budget(disruptedPods={"pod-a": "2026-01-01T00:00:00Z"}, allowed=1)
    assert violating(PODS, Budgets([ending])) == {"c"}


def test_one_of_several_budgets_is_enough() -> None:
    assert violating(PODS[:1], Budgets([budget(allowed=1), budget(allowed=0, name="second")])) == {
        "a"
    }


def test_a_new_budget_allows_nothing_until_it_is_counted() -> None:
    bare = {
        "metadata": {"namespace": "team", "name": "new"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    assert violating(PODS[:1], Budgets([decode_budget(bare)])) == {"a"}


class ReadPod(Pod):
    """A pod that counts how often its labels are read: 16 KiB of text take 0.1 ms each time."""

    reads = 0

    def __getattribute__(self, name: str) -> Any:
        ReadPod.reads += name == "labels"
        return super().__getattribute__(name)


def test_labels_are_read_once_a_pod_for_any_number_of_budgets() -> None:
    pod = ReadPod(uid="a")
    ReadPod.reads = 0
    assert not violating(
        [pod], Budgets([budget(expression("In", f"{at}"), name=f"{at}") for at in range(300)])
    )
    assert ReadPod.reads == 1


def test_more_budgets_than_can_be_looked_at_protect_all_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of one tenant 20 000 kept each question of preempt for 8 s a pod of the tenant's."""
    wanted = ({"matchLabels": {"app": f"{at}"}} for at in range(2_000))
    many = [budget(each, allowed=1, name=f"{at}") for at, each in enumerate(wanted)]
    looked: list[Budget] = []
    covers = Budget.may_cover

    def counted(each: Budget, *given: Any) -> bool:
        looked.append(each)
        return covers(each, *given)

    monkeypatch.setattr(Budget, "may_cover", counted)
    other = Pod(uid="d", namespace="other")
    found = violating([*PODS, other], Budgets([*many, budget(allowed=1, namespace="other")]))
    assert found == {pod.uid for pod in PODS}
    assert len(looked) < 1_000


def test_budgets_of_other_namespaces_are_not_looked_at() -> None:
    """Any tenant makes them by the hundred thousand: each question took 30 ms and more."""
    looked_at = []

    class Watched(Budgets):
        def of(self, namespace: str) -> Sequence[Budget] | None:
            looked_at.append(namespace)
            return super().of(namespace)

    budgets = Watched([budget(), *(budget(namespace="other", name=f"{at}") for at in range(1000))])
    assert violating(PODS, budgets) == {"a", "b", "c"}
    assert looked_at == ["team"]


def test_a_namespaces_budgets_are_few_again_once_some_have_gone() -> None:
    made = [budget(expression("In", "x" * 60), name=f"{at}") for at in range(1000)]
    budgets = Budgets(made)
    assert budgets.of("team") is None
    for each in (*made[1:], made[1]):
        budgets.drop(each)
    changed = budget(allowed=3, name="0")
    budgets.put(changed)
    assert budgets.of("team") == (changed,)
    budgets.drop(changed)
    assert (budgets.of("team"), len(budgets)) == ((), 0)
