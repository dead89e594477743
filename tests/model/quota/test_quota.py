"""Quota: how much of each model and pool a namespace may hold, and what a refusal says."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpustack.model.cluster.cluster import Cluster, Tenant
from gpustack.model.model_name import model_matches
from gpustack.model.node import Node
from gpustack.model.place import place, within
from gpustack.model.placement import Placement, holds
from gpustack.model.policies import EXACT
from gpustack.model.quota.check import check, raised
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.quota.usage import Usage
from gpustack.model.refusal import Reason, Refusal
from gpustack.model.request import PodRequest, Selector
from gpustack.model.units import cards_text
from gpustack.model.use import Use
from tests.model.clusters import NAMESPACES, clusters, quotas, without
from tests.model.machines import card, node, pod, pods

HALF = pod((50, 8))
MIXED = Node(
    name="mixed", cards=(card(0, model="Tesla P40"), card(1, model="NVIDIA A100-SXM4-80GB"))
)


def limit(cards: dict[str, int], *pools: str) -> Quota:
    return Quota(namespaces={"team": NamespaceQuota(cards=cards, pools=pools)})


def placed(where: Node, request: PodRequest) -> Placement:
    answer = place(where, request)
    assert isinstance(answer, Placement)
    return answer


def held(*pods_of_team: tuple[str, PodRequest]) -> Usage:
    usage = Usage()
    for name, request in pods_of_team:
        usage.put(name, "team", name, node(8), placed(node(8), request))
    return usage


def test_a_namespace_that_is_not_listed_is_unlimited() -> None:
    answer = placed(node(4), pod((400, 0)))
    assert check(limit({}), Usage(), "other", node(4), answer) is None


def test_the_last_hundredth_fits_and_one_more_does_not() -> None:
    usage = held(("one", pod((60, 8))), ("two", pod((90, 8))))
    answer = placed(node(1), HALF)
    assert check(limit({"P40": 200}), usage, "team", node(1), answer) is None
    refusal = check(limit({"P40": 199}), usage, "team", node(1), answer)
    assert refusal is not None
    assert refusal.reason is Reason.QUOTA_EXCEEDED


def test_an_amount_is_refused_with_what_is_used_and_by_the_three_largest() -> None:
    asks = (("a", 10), ("b", 40), ("c", 30), ("d", 40), ("e", 5))
    usage = held(*((name, pod((cores, 8))) for name, cores in asks))
    refusal = check(limit({"P40": 150}), usage, "team", node(1), placed(node(1), HALF))
    assert refusal is not None
    assert refusal.detail == (
        "namespace 'team' holds 1.25 of its 1.5 P40 cards (b 0.4, d 0.4, c 0.3, and 2 more); "
        "the pod needs 0.5 more"
    )


def test_a_model_that_is_not_listed_is_refused_by_its_name() -> None:
    refusal = check(limit({"A100": 800}), Usage(), "team", node(1), placed(node(1), HALF))
    assert refusal is not None
    assert refusal.reason is Reason.MODEL_FORBIDDEN
    assert "Tesla-P40" in refusal.detail
    assert "A100" in refusal.detail


@pytest.mark.parametrize(("pool", "shown"), [("blue", "pool 'blue'"), ("", "no pool")])
def test_a_pool_that_is_not_listed_is_refused_by_its_name(pool: str, shown: str) -> None:
    there = replace(node(1), pool=pool)
    refusal = check(limit({"P40": 800}, "red"), Usage(), "team", there, placed(there, HALF))
    assert refusal is not None
    assert refusal.reason is Reason.POOL_FORBIDDEN
    assert shown in refusal.detail
    assert "red" in refusal.detail


def test_a_card_that_two_names_match_counts_for_both() -> None:
    quota = limit({"P40": 800, "Tesla-P40": 10})
    refusal = check(quota, Usage(), "team", node(1), placed(node(1), HALF))
    assert refusal is not None
    assert "Tesla-P40" in refusal.detail


def test_the_pod_itself_does_not_count_twice() -> None:
    usage = held(("one", HALF))
    answer = placed(node(1), HALF)
    assert check(limit({"P40": 50}), usage, "team", node(1), answer) is not None
    assert check(limit({"P40": 50}), usage, "team", node(1), answer, without=["one"]) is None


def test_a_pod_that_is_counted_again_replaces_itself() -> None:
    usage = held(("one", pod((90, 8))), ("one", pod((20, 8))))
    assert usage.used("team", "P40") == 20
    usage.drop("one")
    usage.drop("one")
    assert usage.used("team", "P40") == 0


def test_the_model_with_quota_left_is_used_on_a_node_with_two_models() -> None:
    quota = limit({"P40": 0, "A100": 100})
    answer = within(quota, Usage(), "team", EXACT)(MIXED, HALF)
    assert isinstance(answer, Placement)
    assert answer.containers[0].minors == (1,)


def test_the_users_own_choice_stands_on_a_node_with_two_models() -> None:
    quota = limit({"P40": 0, "A100": 100})
    request = replace(HALF, models=Selector(include=("P40",)))
    answer = within(quota, Usage(), "team", EXACT)(MIXED, request)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.QUOTA_EXCEEDED


def test_a_card_of_a_named_model_comes_before_one_of_no_known_model() -> None:
    there = Node(name="mixed", cards=(card(0, model=""), card(1)))
    answer = within(limit({"P40": 100}), Usage(), "team", EXACT)(there, HALF)
    assert isinstance(answer, Placement)
    assert answer.containers[0].minors == (1,)


@pytest.mark.parametrize("asked", [pod((200, 0)), pod((100, 0), (100, 0)), pod((60, 8), (60, 8))])
def test_a_pod_takes_a_card_of_each_model_if_the_quota_has_one_of_each(
    asked: PodRequest,
) -> None:
    models = ("Tesla P40", "Tesla P40", "Tesla T4", "Tesla T4")
    cards = tuple(card(minor, model=model) for minor, model in enumerate(models))
    there = Node(name="mixed", cards=cards)
    answer = within(limit({"P40": 100, "T4": 100}), Usage(), "team", EXACT)(there, asked)
    assert isinstance(answer, Placement)
    assert sorted(minor for each in answer.containers for minor in each.minors) in (
        [0, 2], [0, 3], [1, 2], [1, 3],
    )  # fmt: skip
    refused = within(limit({"P40": 100, "T4": 19}), Usage(), "team", EXACT)(there, asked)
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.QUOTA_EXCEEDED


@given(
    st.lists(st.sampled_from(["Tesla P40", "Tesla T4", "NVIDIA L40S"]), min_size=2, max_size=8),
    st.dictionaries(st.sampled_from(["P40", "T4", "L40S"]), st.integers(0, 500)),
    st.integers(1, 8),
    st.sets(st.integers(0, 7), max_size=3),
)
def test_whole_cards_are_refused_only_if_every_mixture_breaks_the_quota(
    models: list[str], cards: dict[str, int], count: int, taken: set[int]
) -> None:
    there = Node(
        name="mixed",
        cards=tuple(card(minor, model=model) for minor, model in enumerate(models)),
        uses=tuple(Use(cores=1 if minor in taken else 0) for minor in range(len(models))),
    )
    free = [model.split()[-1] for minor, model in enumerate(models) if minor not in taken]
    most = sum(min(free.count(name), allowed // 100) for name, allowed in cards.items())
    answer = within(limit(cards), Usage(), "team", EXACT)(there, pod((count * 100, 0)))
    assert isinstance(answer, Placement) == (count <= most)


@given(
    st.lists(
        st.tuples(st.sampled_from(["P40", "T4", "L40S"]), st.sampled_from([0, 0, 0, 30, 60])),
        min_size=2,
        max_size=4,
    ),
    st.dictionaries(
        st.sampled_from(["P40", "T4", "L40S", "Tesla"]),
        st.sampled_from([0, 20, 40, 60, 70, 100, 130, 300]),
        min_size=2,
    ),
    st.lists(st.sampled_from([20, 30, 40, 60, 100]), min_size=2, max_size=4),
)
@example(there=[("P40", 0), ("T4", 0)], limits={"P40": 60, "T4": 60}, asked=[60, 30])
@example(there=[("P40", 0), ("L40S", 0)], limits={"P40": 20, "L40S": 100}, asked=[20, 100])
def test_containers_are_refused_only_if_every_choice_breaks_the_quota(
    there: list[tuple[str, int]], limits: dict[str, int], asked: list[int]
) -> None:
    """A container may have to take another model than the first, to leave that to another."""
    machine = Node(
        name="mixed",
        cards=tuple(card(minor, model=f"Tesla-{name}") for minor, (name, _) in enumerate(there)),
        uses=tuple(Use(cores=taken) for _, taken in there),
    )

    def keeps(chosen: tuple[int, ...]) -> bool:
        total = Counter(dict(enumerate(taken for _, taken in there)))
        by_name: Counter[str] = Counter()
        for cores, at in zip(asked, chosen, strict=True):
            if cores == 100 and total[at]:
                return False
            total[at] += cores
            by_name[there[at][0]] += cores
            by_name["Tesla"] += cores
        named = all("Tesla" in limits or there[at][0] in limits for at in chosen)
        within_all = all(by_name[name] <= most for name, most in limits.items())
        return named and within_all and max(total.values()) <= 100

    possible = any(map(keeps, itertools.product(range(len(there)), repeat=len(asked))))
    request = pod(*((cores, 0 if cores == 100 else 1) for cores in asked))
    answer = within(limit(limits), Usage(), "team", EXACT)(machine, request)
    assert isinstance(answer, Placement) == possible


@given(clusters(), st.sampled_from(NAMESPACES), st.tuples(st.integers(1, 99), st.integers(1, 40)))
def test_a_refused_share_would_exceed_the_quota_on_each_card_with_room(
    cluster: Cluster, namespace: str, asked: tuple[int, int]
) -> None:
    usage = cluster.usage()
    for where in cluster.nodes.values():
        answer = within(cluster.quota, usage, namespace, EXACT)(where, pod(asked))
        if isinstance(answer, Placement):
            continue
        for each in where.cards:
            here = place(where, pod(asked, uuids=Selector(include=(each.uuid,))))
            if isinstance(here, Placement):
                assert check(cluster.quota, usage, namespace, where, here) is not None


@pytest.mark.parametrize(
    ("hundredths", "text"), [(400, "4"), (250, "2.5"), (25, "0.25"), (5, "0.05"), (0, "0")]
)
def test_hundredths_are_written_as_people_write_cards(hundredths: int, text: str) -> None:
    assert cards_text(hundredths) == text


@given(clusters(), st.lists(st.tuples(st.sampled_from(NAMESPACES), pods(most=2))), quotas())
def test_no_quota_is_exceeded_over_any_history(
    cluster: Cluster, arrivals: list[tuple[str, PodRequest]], quota: Quota
) -> None:
    nodes = dict(without(cluster, cluster.tenants).nodes)
    usage = Usage()
    running: list[Tenant] = []
    for number, (namespace, request) in enumerate(arrivals):
        if number % 3 == 2 and running:
            usage.drop(running.pop(number % len(running)).uid)
        for name in sorted(nodes):
            answer = within(quota, usage, namespace, EXACT)(nodes[name], request)
            if isinstance(answer, Placement):
                uid = f"pod-{number}"
                usage.put(uid, namespace, uid, nodes[name], answer)
                running.append(Tenant(uid=uid, namespace=namespace, name=uid, placement=answer))
                break
        assert_within(nodes, quota, running)


def assert_within(nodes: dict[str, Node], quota: Quota, running: list[Tenant]) -> None:
    for namespace, allowed in quota.namespaces.items():
        own = [tenant for tenant in running if tenant.namespace == namespace]
        for tenant in own:
            where = nodes[tenant.placement.node]
            assert not allowed.pools or where.pool in allowed.pools
        held_cards = [
            (nodes[tenant.placement.node].cards[index].model, use.cores)
            for tenant in own
            for index, use in holds(nodes[tenant.placement.node], tenant.placement).items()
        ]
        for name, most in allowed.cards.items():
            assert sum(cores for model, cores in held_cards if model_matches(name, model)) <= most
        assert all(any(model_matches(n, model) for n in allowed.cards) for model, _ in held_cards)


@given(clusters(most_tenants=2), pods(most=2), st.sampled_from(NAMESPACES))
def test_the_raised_quota_allows_what_was_refused(
    cluster: Cluster, request: PodRequest, namespace: str
) -> None:
    usage = cluster.usage()
    for where in cluster.nodes.values():
        answer = place(where, request)
        if isinstance(answer, Refusal):
            continue
        then = raised(cluster.quota, usage, namespace, where, answer)
        allowed = cluster.quota.of(namespace)
        if allowed is None or not allowed.pools or where.pool:
            assert check(then, usage, namespace, where, answer) is None
