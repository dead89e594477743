"""Quota of pods with init containers: what a pod holds of a model depends on the very cards."""

import itertools
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpustack.model.node import Node
from gpustack.model.place import within
from gpustack.model.placement import Placement
from gpustack.model.policies import EXACT
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Refusal
from gpustack.model.request import PodRequest
from tests.model.machines import card, pod, with_inits


def asking(apps: list[tuple[int, int]], inits: list[int]) -> PodRequest:
    """Return a pod of containers that ask (cores, memory units), and of init containers."""
    return with_inits(pod(*apps), *((cores, 1) for cores in inits))


def answer(models: list[str], limits: dict[str, int], request: PodRequest) -> Placement | Refusal:
    cards = tuple(card(minor, model=f"Tesla-{name}") for minor, name in enumerate(models))
    quota = Quota(namespaces={"team": NamespaceQuota(cards=limits)})
    return within(quota, Usage(), "team", EXACT)(Node(name="one", cards=cards), request)


@given(
    st.lists(st.sampled_from(["P40", "T4"]), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["P40", "T4"]), st.integers(0, 20).map(lambda n: 10 * n)),
    st.lists(
        st.tuples(st.sampled_from([10, 30, 50, 80]), st.sampled_from([1, 40, 41])),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.sampled_from([10, 40, 60, 90]), min_size=1, max_size=2),
)
@example(["P40", "T4"], {"P40": 30, "T4": 50}, [(50, 1), (30, 1)], [10])
@example(["P40", "P40"], {"P40": 90}, [(50, 40), (30, 41)], [60])
def test_init_containers_are_refused_only_if_every_choice_breaks_it(
    models: list[str], limits: dict[str, int], apps: list[tuple[int, int]], inits: list[int]
) -> None:
    def keeps(chosen: tuple[int, ...]) -> bool:
        own, first = chosen[: len(apps)], chosen[len(apps) :]
        cores: Counter[int] = Counter()
        memory: Counter[int] = Counter()
        for (part, units), at in zip(apps, own, strict=True):
            cores[at] += part
            memory[at] += units
        if max(cores.values()) > 100 or max(memory.values()) > 64 or not set(first) <= set(own):
            return False
        held: Counter[str] = Counter()
        for at in set(own):
            beside = (part for part, where in zip(inits, first, strict=True) if where == at)
            held[models[at]] += max(cores[at], *beside, 0)
        return all(part <= limits.get(name, 0) for name, part in held.items())

    places = itertools.product(range(len(models)), repeat=len(apps) + len(inits))
    found = answer(models, limits, asking(apps, inits))
    assert isinstance(found, Placement) == any(map(keeps, places))


@pytest.mark.parametrize(
    ("cards", "apps", "inits", "left"),
    [
        (8, [(55, 24), (75, 28), (45, 24), (35, 44)], [(100, 0)], 260),
        (8, [(50, 36), (25, 24), (75, 20)], [(100, 0), (10, 1)], 160),
        (8, [(45, 16), (5, 20), (55, 4), (75, 8)], [(45, 20), (85, 1)], 185),
        (2, [(80, 20), (70, 28), (15, 36)], [(100, 0)], 175),
    ],
)
def test_init_containers_find_the_card_that_needs_least_more(
    cards: int, apps: list[tuple[int, int]], inits: list[tuple[int, int]], left: int
) -> None:
    """Idle cards of one model are alike; those that the pod has by then are not."""
    request = with_inits(pod(*apps), *inits)
    assert isinstance(answer(["P40"] * cards, {"P40": left}, request), Placement)
