"""The verb preempt: which pods must end, for each form of the scheduler's proposal."""

from typing import Any

import pytest

from gpustack.model.quota.quota import NamespaceQuota, Quota
from tests.extender.calls import bind, bound, post, preempt, preempt_result
from tests.extender.client import eventually
from tests.extender.mini_cluster import MiniCluster, pod

HIGH = 1000


def vip(mini: MiniCluster, *asks: object, **options: Any) -> dict[str, Any]:
    """A waiting pod of high priority."""
    return mini.create(pod("vip", *asks, **{"priority": HIGH, **options}))


def budget(mini: MiniCluster, allowed: int, **labels: str) -> None:
    """Create a PodDisruptionBudget, and wait until the watch has shown it."""
    before = len(mini.service.budgets.now)
    mini.api.create(
        "poddisruptionbudgets",
        {
            "metadata": {"name": f"pdb-{before}"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed},
        },
    )
    eventually(lambda: len(mini.service.budgets.now) == before + 1)


def labelled(
    mini: MiniCluster, name: str, node: str, *asks: object, priority: int = 0, **labels: str
) -> None:
    """A bound pod with these labels."""
    value = pod(name, *asks, priority=priority)
    value["metadata"]["labels"] = labels
    created = mini.create(value)
    assert bind(mini, created, node) == ""


def test_victims_that_free_no_card_are_replaced_by_those_that_do(mini: MiniCluster) -> None:
    bound(mini, "half-a", "gpu1", 60, 32)  # card 0
    bound(mini, "half-b", "gpu1", 60, 32)  # card 1
    bound(mini, "small", "gpu1", 30, 32)  # card 0
    assert preempt(mini, vip(mini, 100), {"gpu1": ["small"]}) == {"gpu1": ["half-b"]}


def test_the_smallest_set_is_named_however_many_were_proposed(mini: MiniCluster) -> None:
    for name in ("a", "b", "c", "d"):
        bound(mini, name, "gpu1", 40, 32)
    found = preempt(mini, vip(mini, 60, 32), {"gpu1": ["a", "b", "c", "d"]})
    assert len(found["gpu1"]) == 1


def test_a_node_on_which_no_set_helps_is_left_out(mini: MiniCluster) -> None:
    bound(mini, "low", "gpu1", 100)
    bound(mini, "high", "gpu1", 100, None, priority=HIGH)
    bound(mini, "other", "gpu2", 200)
    victims = {"gpu1": ["low"], "gpu2": ["other"], "gpu9": ["other"]}
    assert preempt(mini, vip(mini, 200), victims) == {"gpu2": ["other"]}


def test_proposed_pods_that_hold_no_card_stay(mini: MiniCluster) -> None:
    bound(mini, "cpu", "gpu1")
    bound(mini, "a", "gpu1", 100)
    bound(mini, "b", "gpu1", 100)
    found = preempt(mini, vip(mini, 100), {"gpu1": ["cpu", "a"]})
    assert found == {"gpu1": ["cpu", "a"]}


def test_a_proposal_stands_on_a_node_with_free_cards(mini: MiniCluster) -> None:
    bound(mini, "cpu", "gpu1")
    bound(mini, "a", "gpu1", 50, 32)
    assert preempt(mini, vip(mini, 100), {"gpu1": ["a", "cpu"]}) == {"gpu1": ["a", "cpu"]}


def test_a_node_without_victims_is_left_out(mini: MiniCluster) -> None:
    assert preempt(mini, vip(mini, 100), {"gpu1": []}) == {}
    plain = mini.create(pod("plain"))
    assert preempt(mini, plain, {"gpu1": [], "gpu2": ["vip"]}) == {"gpu2": ["vip"]}


def test_pods_in_full_are_answered_by_uids(mini: MiniCluster) -> None:
    victim = bound(mini, "a", "gpu1", 200)
    entry = {"Pods": [victim], "NumPDBViolations": 0}
    body = {"Pod": vip(mini, 100), "NodeNameToVictims": {"gpu1": entry}}
    assert post(mini, "preempt", body) == {
        "NodeNameToMetaVictims": {
            "gpu1": {"Pods": [{"UID": victim["metadata"]["uid"]}], "NumPDBViolations": 0}
        }
    }


def test_a_protected_pod_is_spared_and_violations_are_counted_anew(mini: MiniCluster) -> None:
    labelled(mini, "web-a", "gpu1", 100, app="web")
    labelled(mini, "free", "gpu1", 100)
    budget(mini, 0, app="web")
    asked = vip(mini, 100)
    found = preempt_result(mini, asked, {"gpu1": ["web-a"]}, violations=1)
    free = mini.api.get("pods", "free")["metadata"]["uid"]
    assert found == {"gpu1": {"Pods": [{"UID": free}], "NumPDBViolations": 0}}


def test_a_pod_whose_labels_are_too_long_to_be_kept_is_spared(mini: MiniCluster) -> None:
    many: dict[str, Any] = {f"example.org/{at}": "x" * 63 for at in range(300)}
    labelled(mini, "web-a", "gpu1", 100, app="web", **many)
    labelled(mini, "free", "gpu1", 100, priority=1)
    budget(mini, 0, app="web")
    found = preempt_result(mini, vip(mini, 100), {"gpu1": ["web-a"]}, violations=1)
    free = mini.api.get("pods", "free")["metadata"]["uid"]
    assert found == {"gpu1": {"Pods": [{"UID": free}], "NumPDBViolations": 0}}


def test_violations_of_pods_without_cards_stay_counted(mini: MiniCluster) -> None:
    bound(mini, "cpu", "gpu1")
    labelled(mini, "web-a", "gpu1", 100, app="web")
    labelled(mini, "web-b", "gpu1", 100, app="web")
    budget(mini, 1, app="web")
    found = preempt_result(mini, vip(mini, 200), {"gpu1": ["cpu", "web-a", "web-b"]}, 2)
    assert found["gpu1"]["NumPDBViolations"] == 2
    assert len(found["gpu1"]["Pods"]) == 3


def test_a_shared_budget_protects_its_least_important_pods(
    mini: MiniCluster,
) -> None:
    labelled(mini, "web-low", "gpu1", 100, priority=1, app="web")
    labelled(mini, "web-high", "gpu1", 100, priority=5, app="web")
    budget(mini, 1, app="web")
    found = preempt_result(mini, vip(mini, 100), {"gpu1": ["web-high", "web-low"]}, violations=1)
    high = mini.api.get("pods", "web-high")["metadata"]["uid"]
    assert found == {"gpu1": {"Pods": [{"UID": high}], "NumPDBViolations": 0}}


def test_an_ending_pod_is_the_first_victim_and_violates_nothing(
    mini: MiniCluster,
) -> None:
    labelled(mini, "leaving", "gpu1", 100, priority=5, app="web")
    bound(mini, "stays", "gpu1", 100)
    budget(mini, 0, app="web")
    mini.sees(mini.end("leaving"))
    found = preempt_result(mini, vip(mini, 100), {"gpu1": ["leaving"]})
    leaving = mini.api.get("pods", "leaving")["metadata"]["uid"]
    assert found == {"gpu1": {"Pods": [{"UID": leaving}], "NumPDBViolations": 0}}


def test_no_pod_ends_for_room_that_an_ending_equal_pod_gives(mini: MiniCluster) -> None:
    bound(mini, "low", "gpu1", 100)
    bound(mini, "equal", "gpu1", 100, None, priority=HIGH)
    urgent = vip(mini, 100)
    assert preempt(mini, urgent, {"gpu1": ["low"]}) == {"gpu1": ["low"]}
    mini.sees(mini.end("equal"))
    assert preempt(mini, urgent, {"gpu1": ["low"]}) == {}


def test_the_quota_of_victims_and_of_the_pod_itself_is_free(
    mini: MiniCluster,
) -> None:
    bound(mini, "a", "gpu2", 100)
    bound(mini, "b", "gpu2", 100)
    asked = vip(mini, 100)
    assert mini.ask(asked, ["gpu1"])["NodeNames"] == ["gpu1"]
    mini.service.cache.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"A100": 200})}))
    assert len(preempt(mini, asked, {"gpu2": ["a", "b"]})["gpu2"]) == 1


def test_a_proposed_victim_may_have_an_equal_priority(mini: MiniCluster) -> None:
    bound(mini, "equal", "gpu1", 200, None, priority=HIGH)
    assert preempt(mini, vip(mini, 100), {"gpu1": ["equal"]}) == {"gpu1": ["equal"]}


def test_a_node_without_time_for_its_search_is_left_out(mini: MiniCluster) -> None:
    bound(mini, "a", "gpu1", 200)
    asked = mini.sees(vip(mini, 100))
    mini.service._decision_seconds = 0.0
    assert preempt(mini, asked, {"gpu1": ["a"]}) == {}


def test_a_deleted_budget_protects_no_pod(mini: MiniCluster) -> None:
    labelled(mini, "web-a", "gpu1", 200, app="web")
    budget(mini, 0, app="web")
    mini.api.delete("poddisruptionbudgets", "pdb-0")
    eventually(lambda: not mini.service.budgets.now)
    found = preempt_result(mini, vip(mini, 100), {"gpu1": ["web-a"]})
    assert found["gpu1"]["NumPDBViolations"] == 0


def test_an_identity_that_may_not_see_budgets_still_preempts(mini: MiniCluster) -> None:
    mini.api.faults.fail("GET", "/poddisruptionbudgets", status=403, times=1000)
    mini.api.store.compact()
    mini.api.drop_connections()
    bound(mini, "a", "gpu1", 200)
    assert preempt(mini, vip(mini, 100), {"gpu1": ["a"]}) == {"gpu1": ["a"]}


def test_the_most_important_victim_comes_first(mini: MiniCluster) -> None:
    bound(mini, "low", "gpu1", 100, None, priority=1)
    bound(mini, "mid", "gpu1", 100, None, priority=5)
    found = preempt(mini, vip(mini, 200), {"gpu1": ["mid", "low"]})
    assert found == {"gpu1": ["mid", "low"]}


def test_a_pod_that_no_watch_has_shown_bound_is_a_victim(mini: MiniCluster) -> None:
    mini.api.hold_watches()
    assert bind(mini, mini.create(pod("a", 200)), "gpu1") == ""
    assert preempt(mini, vip(mini, 100), {"gpu1": ["a"]}) == {"gpu1": ["a"]}


def test_a_reservation_of_a_waiting_pod_is_no_victim(mini: MiniCluster) -> None:
    assert mini.ask(mini.create(pod("waiting", 100)), ["gpu1"])["NodeNames"] == ["gpu1"]
    bound(mini, "a", "gpu1", 100)
    assert preempt(mini, vip(mini, 100), {"gpu1": ["a"]}) == {"gpu1": ["a"]}
    assert preempt(mini, mini.create(pod("vip2", 200, priority=HIGH)), {"gpu1": ["a"]}) == {}


def test_room_that_is_made_for_one_pod_is_not_promised_to_the_next(mini: MiniCluster) -> None:
    bound(mini, "a", "gpu1", 100)
    bound(mini, "b", "gpu1", 100)
    mini.sees(mini.end("a"))
    first = {**pod("first", 100, priority=HIGH), "status": {"nominatedNodeName": "gpu1"}}
    mini.sees(mini.create(first))
    assert preempt(mini, vip(mini, 100), {"gpu1": ["a", "b"]}) == {"gpu1": ["b"]}


@pytest.mark.parametrize("core", [150, -100])
def test_a_bad_request_ends_no_pod(mini: MiniCluster, core: int) -> None:
    bound(mini, "a", "gpu1", 200)
    assert preempt(mini, vip(mini, core, 32), {"gpu1": ["a"]}) == {}


def test_a_preemptor_that_is_gone_is_an_error_without_victims(mini: MiniCluster) -> None:
    gone = pod("vip", 100)
    gone["metadata"]["uid"] = "0"
    body = {"Pod": gone, "NodeNameToMetaVictims": {"gpu1": {"Pods": [{"UID": "1"}]}}}
    assert "is gone" in post(mini, "preempt", body, status=503)["Error"]


def test_a_body_without_victims_is_400_and_names_the_field(mini: MiniCluster) -> None:
    answer = post(mini, "preempt", {"Pod": vip(mini, 100)}, status=400)
    assert answer["Error"].startswith("NodeNameToMetaVictims: is missing")


def test_preempt_ends_and_reserves_nothing(mini: MiniCluster) -> None:
    bound(mini, "a", "gpu1", 200)
    asked = vip(mini, 100)
    first = preempt(mini, asked, {"gpu1": ["a"]})
    assert preempt(mini, asked, {"gpu1": ["a"]}) == first
    assert mini.free_cores("gpu1") == 0
    assert mini.service.cache.reservations == 0
    assert mini.api.asked("DELETE", "") == []
