"""Why a running pod is where it is."""

from dataclasses import replace

from hypothesis import given

from gpustack.model.cluster.cluster import Cluster, Tenant, settle
from gpustack.model.cluster.eligibility import Host
from gpustack.model.explain.alternatives import Standing, Verdict, why
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import Placement
from gpustack.model.policies import Fgd
from gpustack.model.policies.fragmentation import workload_of
from gpustack.model.quota.quota import NamespaceQuota, Quota
from gpustack.model.refusal import Reason
from gpustack.model.request import PodRequest, Strategy
from gpustack.model.use import Use
from tests.model.machines import card, grouped, node, nodes, pod, pods


def standing(request: PodRequest, where: Node, *others: Node) -> Standing:
    answer = place(where, request)
    assert isinstance(answer, Placement)
    tenant = Tenant(uid="u", namespace="team", name="p", placement=answer)
    return why(settle([where, *others], [tenant]), tenant, request)


def test_a_share_says_how_much_more_the_next_card_would_have_left() -> None:
    found = standing(pod((30, 8)), node(3, taken={1: Use(cores=40), 2: Use(cores=10)}))
    (other,) = found.alternatives
    assert other.verdict is Verdict.WORSE
    assert other.criterion == "free cores left on its cards"
    assert (other.chosen, other.other) == ("30", "60")
    assert other.placement.containers[0].minors == (2,)


def test_whole_cards_say_how_much_farther_the_next_set_is() -> None:
    found = standing(pod((200, 0)), node(4, grouped(2, 2)))
    (near,) = found.alternatives
    assert near.placement.containers[0].minors == (2, 3)
    assert (near.criterion, near.chosen, near.other) == ("lowest minors", "0,1", "2,3")

    broken = node(4, grouped(2, 2), {3: Use(cores=1)})
    (one, two) = standing(pod((200, 0)), broken).alternatives
    assert (one.criterion, one.chosen, one.other) == ("worst pair", "PIX", "PHB")
    assert two.verdict is Verdict.WORSE


def test_one_whole_card_says_which_group_another_one_would_break() -> None:
    machine = node(3, (("X", "PIX", "SYS"), ("PIX", "X", "SYS"), ("SYS", "SYS", "X")))
    (other,) = standing(pod((100, 0)), machine).alternatives
    assert other.criterion == "free pairs left joined by PIX or nearer"
    assert (other.chosen, other.other) == ("1", "0")


def test_other_nodes_compare_by_free_cores_and_refusals_are_kept() -> None:
    emptier = replace(node(4), name="a-emptier")
    full = replace(node(1, taken={0: Use(cores=90)}), name="full")
    found = standing(pod((30, 8)), node(1), emptier, full)
    (other,) = found.alternatives
    assert (other.verdict, other.criterion) == (Verdict.WORSE, "free cores of the node")
    assert (other.chosen, other.other) == ("100", "400")
    assert found.refusals["full"].reason is Reason.INSUFFICIENT_CORE


def test_the_emptier_node_is_better_under_spread() -> None:
    emptier = replace(node(4), name="a-emptier")
    found = standing(pod((30, 8), node_strategy=Strategy.SPREAD), node(1), emptier)
    assert found.alternatives[0].verdict is Verdict.BETTER


def test_a_card_without_a_uuid_has_an_alternative_too() -> None:
    plain = Node(name="old", cards=(card(0, uuid=""), card(1, uuid="")))
    (other,) = standing(pod((30, 8)), plain).alternatives
    assert other.placement.containers[0].minors == (1,)


def two_nodes() -> tuple[Cluster, Tenant]:
    where, other = node(1), replace(node(1), name="other")
    answer = place(where, pod((30, 8)))
    assert isinstance(answer, Placement)
    tenant = Tenant(uid="u", namespace="team", name="p", placement=answer)
    return settle([where, other], [tenant]), tenant


def test_a_node_that_the_quota_forbids_is_no_alternative() -> None:
    cluster, tenant = two_nodes()
    nodes_ = {**cluster.nodes, "node": replace(cluster.nodes["node"], pool="red")}
    limit = NamespaceQuota(cards={"P40": 30}, pools=("red",))
    limited = replace(cluster, nodes=nodes_, quota=Quota(namespaces={"team": limit}))
    found = why(limited, tenant, pod((30, 8)))
    assert found.refusals["other"].reason is Reason.POOL_FORBIDDEN


def test_the_pods_own_part_of_the_quota_is_free_for_its_alternatives() -> None:
    cluster, tenant = two_nodes()
    limit = NamespaceQuota(cards={"P40": 30})
    limited = replace(cluster, quota=Quota(namespaces={"team": limit}))
    assert not why(limited, tenant, pod((30, 8))).refusals


def test_a_node_that_keeps_the_pod_away_is_no_alternative() -> None:
    cluster, tenant = two_nodes()
    cordoned = replace(cluster, hosts={"other": Host(cordoned=True)})
    found = why(cordoned, tenant, pod((30, 8)))
    assert found.refusals["other"].reason is Reason.NODE_UNSCHEDULABLE


def test_under_fgd_the_growth_of_fragmentation_comes_first() -> None:
    where = node(2, taken={0: Use(cores=50, memory_units=8)})
    answer = place(where, pod((50, 8)))
    assert isinstance(answer, Placement)
    tenant = Tenant(uid="u", namespace="team", name="p", placement=answer)
    fgd = Fgd(workload_of([(pod((100, 0)), 1)]))
    (other,) = why(settle([where], [tenant]), tenant, pod((50, 8)), policy=fgd).alternatives
    assert (other.verdict, other.criterion) == (Verdict.WORSE, "growth of fragmentation")
    # Pods that ask for whole cards cannot use the rest of a broken card; a full card has no rest.
    assert (other.chosen, other.other) == ("-50", "50")


def test_a_decision_that_does_not_hold_today_is_told_with_its_reason() -> None:
    cluster, tenant = two_nodes()
    here = cluster.nodes["node"]
    sick = replace(here, cards=(replace(here.cards[0], healthy=False, reason="XID 79"),))
    nodes_ = {**cluster.nodes, "node": sick}
    trouble = why(replace(cluster, nodes=nodes_), tenant, pod((30, 8))).trouble
    assert trouble is not None
    assert trouble.reason is Reason.UNHEALTHY_CARDS
    assert trouble.detail == "card 0 is unhealthy: XID 79"
    assert why(cluster, tenant, pod((30, 8))).trouble is None


@given(nodes(), pods(most=1))
def test_no_alternative_is_better_than_the_choice_for_one_container(
    where: Node, request: PodRequest
) -> None:
    if isinstance(place(where, request), Placement):
        for other in standing(request, where).alternatives:
            assert other.verdict is not Verdict.BETTER
