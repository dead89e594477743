"""The verb preempt: which pods must end, in whichever form the scheduler proposes others."""

from typing import Any

import pytest

from gpustack.model.quota.quota import NamespaceQuota, Quota
from tests.extender.calls import bind, bound, post, preempt, preempt_result
from tests.extender.client import eventually
from tests.extender.mini_cluster import Bench, pod

HIGH = 1000


def vip(bench: Bench, *asks: object, **options: Any) -> dict[str, Any]:
    """A waiting pod of high priority."""
    return bench.create(pod("vip", *asks, **{"priority": HIGH, **options}))


def budget(bench: Bench, allowed: int, **labels: str) -> None:
    """A PodDisruptionBudget, and our watch has seen it."""
    before = len(bench.service.budgets.now)
    bench.api.create(
        "poddisruptionbudgets",
        {
            "metadata": {"name": f"pdb-{before}"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed},
        },
    )
    eventually(lambda: len(bench.service.budgets.now) == before + 1)


def labelled(
    bench: Bench, name: str, node: str, *asks: object, priority: int = 0, **labels: str
) -> None:
    """A bound pod with these labels."""
    value = pod(name, *asks, priority=priority)
    value["metadata"]["labels"] = labels
    created = bench.create(value)
    assert bind(bench, created, node) == ""


def test_victims_that_free_no_card_are_replaced_by_those_that_do(bench: Bench) -> None:
    bound(bench, "half-a", "gpu1", 60, 32)  # card 0
    bound(bench, "half-b", "gpu1", 60, 32)  # card 1
    bound(bench, "small", "gpu1", 30, 32)  # card 0
    assert preempt(bench, vip(bench, 100), {"gpu1": ["small"]}) == {"gpu1": ["half-b"]}


def test_the_smallest_set_is_named_however_many_were_proposed(bench: Bench) -> None:
    for name in ("a", "b", "c", "d"):
        bound(bench, name, "gpu1", 40, 32)
    found = preempt(bench, vip(bench, 60, 32), {"gpu1": ["a", "b", "c", "d"]})
    assert len(found["gpu1"]) == 1


def test_a_node_on_which_no_set_helps_is_left_out(bench: Bench) -> None:
    bound(bench, "low", "gpu1", 100)
    bound(bench, "high", "gpu1", 100, None, priority=HIGH)
    bound(bench, "other", "gpu2", 200)
    victims = {"gpu1": ["low"], "gpu2": ["other"], "gpu9": ["other"]}
    assert preempt(bench, vip(bench, 200), victims) == {"gpu2": ["other"]}


def test_proposed_pods_that_hold_no_card_stay(bench: Bench) -> None:
    bound(bench, "cpu", "gpu1")
    bound(bench, "a", "gpu1", 100)
    bound(bench, "b", "gpu1", 100)
    found = preempt(bench, vip(bench, 100), {"gpu1": ["cpu", "a"]})
    assert found == {"gpu1": ["cpu", "a"]}


def test_where_the_cards_are_free_the_proposal_stands(bench: Bench) -> None:
    bound(bench, "cpu", "gpu1")
    bound(bench, "a", "gpu1", 50, 32)
    assert preempt(bench, vip(bench, 100), {"gpu1": ["a", "cpu"]}) == {"gpu1": ["a", "cpu"]}


def test_a_node_without_victims_is_left_out(bench: Bench) -> None:
    assert preempt(bench, vip(bench, 100), {"gpu1": []}) == {}
    plain = bench.create(pod("plain"))
    assert preempt(bench, plain, {"gpu1": [], "gpu2": ["vip"]}) == {"gpu2": ["vip"]}


def test_pods_in_full_are_answered_by_uids(bench: Bench) -> None:
    victim = bound(bench, "a", "gpu1", 200)
    entry = {"Pods": [victim], "NumPDBViolations": 0}
    body = {"Pod": vip(bench, 100), "NodeNameToVictims": {"gpu1": entry}}
    assert post(bench, "preempt", body) == {
        "NodeNameToMetaVictims": {
            "gpu1": {"Pods": [{"UID": victim["metadata"]["uid"]}], "NumPDBViolations": 0}
        }
    }


def test_a_protected_pod_is_spared_and_violations_are_counted_anew(bench: Bench) -> None:
    labelled(bench, "web-a", "gpu1", 100, app="web")
    labelled(bench, "free", "gpu1", 100)
    budget(bench, 0, app="web")
    asked = vip(bench, 100)
    found = preempt_result(bench, asked, {"gpu1": ["web-a"]}, violations=1)
    free = bench.api.get("pods", "free")["metadata"]["uid"]
    assert found == {"gpu1": {"Pods": [{"UID": free}], "NumPDBViolations": 0}}


def test_a_pod_whose_labels_are_too_long_to_be_kept_is_spared(bench: Bench) -> None:
    many: dict[str, Any] = {f"example.org/{at}": "x" * 63 for at in range(300)}
    labelled(bench, "web-a", "gpu1", 100, app="web", **many)
    labelled(bench, "free", "gpu1", 100, priority=1)
    budget(bench, 0, app="web")
    found = preempt_result(bench, vip(bench, 100), {"gpu1": ["web-a"]}, violations=1)
    free = bench.api.get("pods", "free")["metadata"]["uid"]
    assert found == {"gpu1": {"Pods": [{"UID": free}], "NumPDBViolations": 0}}


def test_violations_of_pods_without_cards_stay_counted(bench: Bench) -> None:
    bound(bench, "cpu", "gpu1")
    labelled(bench, "web-a", "gpu1", 100, app="web")
    labelled(bench, "web-b", "gpu1", 100, app="web")
    budget(bench, 1, app="web")
    found = preempt_result(bench, vip(bench, 200), {"gpu1": ["cpu", "web-a", "web-b"]}, 2)
    assert found["gpu1"]["NumPDBViolations"] == 2
    assert len(found["gpu1"]["Pods"]) == 3


def test_of_pods_that_share_a_budget_the_least_important_are_protected_by_it(
    bench: Bench,
) -> None:
    labelled(bench, "web-low", "gpu1", 100, priority=1, app="web")
    labelled(bench, "web-high", "gpu1", 100, priority=5, app="web")
    budget(bench, 1, app="web")
    found = preempt_result(bench, vip(bench, 100), {"gpu1": ["web-high", "web-low"]}, violations=1)
    high = bench.api.get("pods", "web-high")["metadata"]["uid"]
    assert found == {"gpu1": {"Pods": [{"UID": high}], "NumPDBViolations": 0}}


def test_who_is_ending_already_goes_before_all_others_and_violates_nothing(bench: Bench) -> None:
    labelled(bench, "leaving", "gpu1", 100, priority=5, app="web")
    bound(bench, "stays", "gpu1", 100)
    budget(bench, 0, app="web")
    bench.sees(bench.end("leaving"))
    found = preempt_result(bench, vip(bench, 100), {"gpu1": ["leaving"]})
    leaving = bench.api.get("pods", "leaving")["metadata"]["uid"]
    assert found == {"gpu1": {"Pods": [{"UID": leaving}], "NumPDBViolations": 0}}


def test_nobody_ends_where_room_comes_with_the_end_of_a_pod_as_important(bench: Bench) -> None:
    bound(bench, "low", "gpu1", 100)
    bound(bench, "equal", "gpu1", 100, None, priority=HIGH)
    urgent = vip(bench, 100)
    assert preempt(bench, urgent, {"gpu1": ["low"]}) == {"gpu1": ["low"]}
    bench.sees(bench.end("equal"))
    assert preempt(bench, urgent, {"gpu1": ["low"]}) == {}


def test_the_quota_of_victims_is_free_and_so_is_what_the_pod_holds_itself(bench: Bench) -> None:
    bound(bench, "a", "gpu2", 100)
    bound(bench, "b", "gpu2", 100)
    asked = vip(bench, 100)
    assert bench.ask(asked, ["gpu1"])["NodeNames"] == ["gpu1"]
    bench.service.view.set_quota(Quota(namespaces={"default": NamespaceQuota(cards={"A100": 200})}))
    assert len(preempt(bench, asked, {"gpu2": ["a", "b"]})["gpu2"]) == 1


def test_whom_the_scheduler_proposes_may_end_whatever_we_know_of_it(bench: Bench) -> None:
    bound(bench, "equal", "gpu1", 200, None, priority=HIGH)
    assert preempt(bench, vip(bench, 100), {"gpu1": ["equal"]}) == {"gpu1": ["equal"]}


def test_what_there_was_no_time_for_is_left_out(bench: Bench) -> None:
    bound(bench, "a", "gpu1", 200)
    asked = bench.sees(vip(bench, 100))
    bench.service.preempt._decision_seconds = 0.0
    assert preempt(bench, asked, {"gpu1": ["a"]}) == {}


def test_a_budget_that_goes_protects_nobody(bench: Bench) -> None:
    labelled(bench, "web-a", "gpu1", 200, app="web")
    budget(bench, 0, app="web")
    bench.api.delete("poddisruptionbudgets", "pdb-0")
    eventually(lambda: not bench.service.budgets.now)
    found = preempt_result(bench, vip(bench, 100), {"gpu1": ["web-a"]})
    assert found["gpu1"]["NumPDBViolations"] == 0


def test_an_identity_that_may_not_see_budgets_still_preempts(bench: Bench) -> None:
    bench.api.faults.fail("GET", "/poddisruptionbudgets", status=403, times=1000)
    bench.api.store.compact()
    bench.api.drop_connections()
    bound(bench, "a", "gpu1", 200)
    assert preempt(bench, vip(bench, 100), {"gpu1": ["a"]}) == {"gpu1": ["a"]}


def test_the_most_important_victim_comes_first(bench: Bench) -> None:
    bound(bench, "low", "gpu1", 100, None, priority=1)
    bound(bench, "mid", "gpu1", 100, None, priority=5)
    found = preempt(bench, vip(bench, 200), {"gpu1": ["mid", "low"]})
    assert found == {"gpu1": ["mid", "low"]}


def test_a_victim_that_no_watch_has_shown_bound_is_still_one(bench: Bench) -> None:
    bench.api.hold_watches()
    assert bind(bench, bench.create(pod("a", 200)), "gpu1") == ""
    assert preempt(bench, vip(bench, 100), {"gpu1": ["a"]}) == {"gpu1": ["a"]}


def test_what_is_reserved_for_a_waiting_pod_is_nobodys_victim(bench: Bench) -> None:
    assert bench.ask(bench.create(pod("waiting", 100)), ["gpu1"])["NodeNames"] == ["gpu1"]
    bound(bench, "a", "gpu1", 100)
    assert preempt(bench, vip(bench, 100), {"gpu1": ["a"]}) == {"gpu1": ["a"]}
    assert preempt(bench, bench.create(pod("vip2", 200, priority=HIGH)), {"gpu1": ["a"]}) == {}


def test_room_that_is_made_for_one_pod_is_not_promised_to_the_next(bench: Bench) -> None:
    bound(bench, "a", "gpu1", 100)
    bound(bench, "b", "gpu1", 100)
    bench.sees(bench.end("a"))
    first = {**pod("first", 100, priority=HIGH), "status": {"nominatedNodeName": "gpu1"}}
    bench.sees(bench.create(first))
    assert preempt(bench, vip(bench, 100), {"gpu1": ["a", "b"]}) == {"gpu1": ["b"]}


@pytest.mark.parametrize("core", [150, -100])
def test_a_bad_request_ends_nobody(bench: Bench, core: int) -> None:
    bound(bench, "a", "gpu1", 200)
    assert preempt(bench, vip(bench, core, 32), {"gpu1": ["a"]}) == {}


def test_a_pod_that_is_gone_is_an_error_that_ends_nobody(bench: Bench) -> None:
    gone = pod("vip", 100)
    gone["metadata"]["uid"] = "0"
    body = {"Pod": gone, "NodeNameToMetaVictims": {"gpu1": {"Pods": [{"UID": "1"}]}}}
    assert "is gone" in post(bench, "preempt", body, status=503)["Error"]


def test_a_body_without_victims_is_400_and_names_the_field(bench: Bench) -> None:
    answer = post(bench, "preempt", {"Pod": vip(bench, 100)}, status=400)
    assert answer["Error"].startswith("NodeNameToMetaVictims: is missing")


def test_asking_ends_and_reserves_nothing(bench: Bench) -> None:
    bound(bench, "a", "gpu1", 200)
    asked = vip(bench, 100)
    first = preempt(bench, asked, {"gpu1": ["a"]})
    assert preempt(bench, asked, {"gpu1": ["a"]}) == first
    assert bench.free_cores("gpu1") == 0
    assert bench.service.view.reservations == 0
    assert bench.api.asked("DELETE", "") == []
