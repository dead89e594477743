"""Merging the extender into a scheduler's configuration keeps the rest, and is idempotent."""

import json
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ansible import plugins

ENTRY = {
    "urlPrefix": "https://127.0.0.1:3456/scheduler",
    "filterVerb": "filter",
    "bindVerb": "bind",
    "managedResources": [{"name": "tencent.com/vcuda-core", "ignoredByScheduler": False}],
}
STEERING = {"urlPrefix": "https://127.0.0.1:3456/scheduler", "prioritizeVerb": "prioritize"}
# of gpu-admission, at an address of its own
ORIGINAL = {
    "urlPrefix": "http://192.0.2.9:3456/scheduler",
    "filterVerb": "predicates",
    "managedResources": [{"name": "tencent.com/vcuda-core"}],
}
POLICY = {"kind": "Policy", "extenders": [{"urlPrefix": "http://127.0.0.1:3456/scheduler"}]}
NEW = {
    "api_version": "kubescheduler.config.k8s.io/v1",
    "kubeconfig": "/etc/kubernetes/scheduler.conf",
}
CLIENT = {"kubeconfig": "/etc/kubernetes/scheduler.conf"}


@pytest.fixture(scope="module")
def filters() -> types.ModuleType:
    """Load the role's plugin as Ansible does: by its path."""
    return plugins.load("roles/kube_scheduler/filter_plugins/kube_scheduler.py")


def test_a_new_configuration_elects_a_leader_and_looks_at_every_node(
    filters: types.ModuleType,
) -> None:
    made = filters.with_extender(None, [ENTRY], **NEW)
    assert made["leaderElection"] == {"leaderElect": True}
    assert made["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    assert made["percentageOfNodesToScore"] == 100
    assert made["extenders"] == [ENTRY]


class Lazy(dict[str, Any]):
    """A mapping as Ansible gives it to a filter: a deep copy is one of all variables, too."""

    def __deepcopy__(self, _: object) -> None:
        raise AssertionError("copied with its templar")


def test_a_merge_copies_no_more_than_the_files(filters: types.ModuleType) -> None:
    pod = plugins.load("roles/kube_scheduler/filter_plugins/kube_scheduler_static_pod.py")
    entry, original = Lazy(ENTRY), Lazy(ORIGINAL)
    found = Lazy(leaderElection=Lazy(leaderElect=True), extenders=[original])
    made = filters.with_extender(found, [entry], **NEW)
    assert found == {"leaderElection": {"leaderElect": True}, "extenders": [ORIGINAL]}
    assert filters.without_extender(made, found, [entry])["extenders"] == [ORIGINAL]
    manifest = Lazy(metadata=Lazy(), spec=Lazy(containers=[]))
    assert pod.without_flags(manifest, manifest, []) == manifest


def test_profiles_and_other_extenders_of_the_site_stay(filters: types.ModuleType) -> None:
    other = {"urlPrefix": "http://127.0.0.1:9999/other", "filterVerb": "filter"}
    found = {
        "apiVersion": "x/v1beta3",
        "profiles": [{"schedulerName": "mine"}],
        "extenders": [other],
    }
    made = filters.with_extender(found, [ENTRY], **NEW)
    assert made["apiVersion"] == "x/v1beta3"
    assert made["profiles"] == [{"schedulerName": "mine"}]
    assert made["extenders"] == [other, ENTRY]
    assert found["extenders"] == [other]


def test_a_configuration_made_here_follows_the_schedulers_version(
    filters: types.ModuleType,
) -> None:
    old = filters.with_extender(None, [ENTRY], **{**NEW, "api_version": "x/v1beta3"})
    assert filters.with_extender(old, [ENTRY], **NEW, made_here=True)["apiVersion"] == (
        "kubescheduler.config.k8s.io/v1"
    )
    unknown = {**NEW, "api_version": ""}
    assert filters.with_extender(old, [ENTRY], **unknown, made_here=True) == old
    with pytest.raises(ValueError, match="set kube_scheduler_api_version"):
        filters.with_extender(None, [ENTRY], **unknown)


def test_a_new_configuration_says_what_the_flags_say(filters: types.ModuleType) -> None:
    flags = {
        "--kube-api-qps": "200", "--kube-api-burst": "400", "--kube-api-content-type": "",
        "--profiling": "false", "--contention-profiling": "", "--config": "/etc/scheduler.yaml",
    }  # fmt: skip
    made = filters.with_extender(None, [ENTRY], **NEW, flags=flags)
    assert made["clientConnection"] == {**CLIENT, "qps": 200.0, "burst": 400}
    assert made["enableProfiling"] is False
    assert "enableContentionProfiling" not in made
    # one from before flags were looked at; a field that was written since stays
    older = {**made, "clientConnection": {**CLIENT, "qps": 300}}
    del older["enableProfiling"]
    kept = {**made, "clientConnection": {**CLIENT, "qps": 300, "burst": 400}}
    assert filters.with_extender(older, [ENTRY], **NEW, flags=flags, made_here=True) == kept
    assert filters.with_extender(older, [ENTRY], **NEW, flags=flags) == older


def test_merging_twice_is_merging_once(filters: types.ModuleType) -> None:
    once = filters.with_extender({"extenders": [{**ENTRY, "weight": 7}]}, [ENTRY], **NEW)
    assert filters.with_extender(once, [ENTRY], **NEW) == once
    assert once["extenders"] == [ENTRY]


@pytest.mark.parametrize(
    "stale",
    [
        {**ENTRY, "urlPrefix": "https://127.0.0.1:9999/scheduler"},
        {**ENTRY, "urlPrefix": "http://127.0.0.1:3456/scheduler/"},
        # the original's, as its documentation has it
        {"urlPrefix": "http://127.0.0.1:3456/scheduler", "filterVerb": "predicates"},
    ],
)
def test_a_stale_entry_of_ours_is_replaced_wherever_it_calls(
    filters: types.ModuleType, stale: dict[str, Any]
) -> None:
    steering = {**STEERING, "urlPrefix": stale["urlPrefix"]}
    made = filters.with_extender({"extenders": [steering, stale]}, [ENTRY], **NEW)
    assert made["extenders"] == [ENTRY]


def test_both_entries_are_installed_and_an_unwanted_second_one_goes(
    filters: types.ModuleType,
) -> None:
    both = filters.with_extender(None, [ENTRY, STEERING], **NEW)
    assert both["extenders"] == [ENTRY, STEERING]
    assert filters.with_extender(both, [ENTRY], **NEW)["extenders"] == [ENTRY]


def test_a_profile_that_samples_nodes_is_told_to_look_at_all(filters: types.ModuleType) -> None:
    found = {"profiles": [{"schedulerName": "a", "percentageOfNodesToScore": 5}, {}]}
    made = filters.with_extender(found, [ENTRY], **NEW)
    assert made["profiles"] == [{"schedulerName": "a", "percentageOfNodesToScore": 100}, {}]


def test_a_second_extender_that_binds_is_refused_by_name(filters: types.ModuleType) -> None:
    other = {"urlPrefix": "http://127.0.0.1:9999/other", "bindVerb": "bind"}
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9999/other has a bindVerb"):
        filters.with_extender({"extenders": [other]}, [ENTRY], **NEW)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("", False),
        ("extenders: [{urlPrefix: 'http://127.0.0.1:3456/scheduler', bindVerb: bind}]", True),
        ("extenders: [{urlPrefix: 'http://127.0.0.1:3456/scheduler'}]", False),
        ('{"extenders": [{"urlPrefix": "http://127.0.0.1:9999/other", "bindVerb": "b"}]}', False),
        ("extenders: [{managedResources: [{name: tencent.com/vcuda-core}], bindVerb: b}]", True),
        ("extenders: [{managedResources: [{name: tencent.com/vcuda-core}]}]", False),
        (json.dumps(POLICY), True),
        (json.dumps({**POLICY, "priorities": [{"name": "MostRequested", "weight": 7}]}), False),
        (json.dumps({**POLICY, "extenders": [{"urlPrefix": "http://127.0.0.1:9/other"}]}), False),
    ],
)
def test_a_file_is_ours_when_it_has_what_we_write(
    filters: types.ModuleType, text: str, ours: bool
) -> None:
    assert filters.has_ours(text, [ENTRY], POLICY) is ours


@pytest.mark.parametrize(
    ("predicates", "lost"),
    [
        (None, ["CheckVolumeBinding", "EvenPodsSpread", "MatchInterPodAffinity",
                "MaxCSIVolumeCountPred", "NoVolumeZoneConflict"]),
        ([], []),
        (["GeneralPredicates", "PodToleratesNodeTaints", "NoDiskConflict"], []),
        (["HostName", "MatchInterPodAffinity"], ["MatchInterPodAffinity"]),
    ],
)  # fmt: skip
def test_what_the_policy_takes_from_a_scheduler_is_known(
    filters: types.ModuleType, predicates: list[str] | None, lost: list[str]
) -> None:
    ours = {
        **POLICY,
        "predicates": [{"name": name} for name in (*filters.GENERAL, "NoDiskConflict")],
    }
    named = {} if predicates is None else {"predicates": [{"name": name} for name in predicates]}
    assert filters.lost(json.dumps({"kind": "Policy", **named}), [ENTRY], ours) == lost
    assert filters.lost(json.dumps(ours), [ENTRY], ours) == []


numbers = st.fixed_dictionaries({}, optional={"percentageOfNodesToScore": st.integers(0, 100)})
profiles = st.builds(
    lambda name, number: {"schedulerName": name, **number}, st.sampled_from("abc"), numbers
)
extender = st.fixed_dictionaries({"urlPrefix": st.sampled_from(["http://a", "http://b/c"])})
configurations = st.builds(
    lambda number, rest: {"apiVersion": "x/v1", **number, **rest},
    numbers,
    st.fixed_dictionaries(
        {},
        optional={
            "profiles": st.lists(profiles, unique_by=lambda one: one["schedulerName"]),
            "extenders": st.lists(extender, unique_by=lambda one: one["urlPrefix"]),
        },
    ),
)


@given(found=configurations)
def test_taking_our_part_out_gives_the_configuration_as_it_was(
    filters: types.ModuleType, found: dict[str, Any]
) -> None:
    merged = filters.with_extender(found, [ENTRY, STEERING], **NEW)
    assert filters.without_extender(merged, found, [ENTRY, STEERING]) == found


@pytest.mark.parametrize("beside", [[], [{"urlPrefix": "http://a"}]])
def test_the_originals_entry_comes_back_when_ours_goes(
    filters: types.ModuleType, beside: list[dict[str, Any]]
) -> None:
    found = {"apiVersion": "x/v1", "extenders": [ORIGINAL, *beside]}
    merged = filters.with_extender(found, [ENTRY], **NEW)
    assert merged["extenders"] == [*beside, ENTRY]
    assert filters.without_extender(merged, found, [ENTRY]) == found
    merged["extenders"].append({"urlPrefix": "http://new"})
    left = filters.without_extender(merged, found, [ENTRY])["extenders"]
    assert left == [*beside, {"urlPrefix": "http://new"}, ORIGINAL]


def test_no_entry_comes_back_where_nobody_answers_then(filters: types.ModuleType) -> None:
    here = {**ORIGINAL, "urlPrefix": "http://127.0.0.1:3456/scheduler"}
    found = {"apiVersion": "x/v1", "extenders": [here, ORIGINAL, {"urlPrefix": "http://a"}]}
    merged = filters.with_extender(found, [ENTRY], **NEW)
    left = filters.without_extender(merged, found, [ENTRY])["extenders"]
    assert left == [ORIGINAL, {"urlPrefix": "http://a"}]


def test_later_changes_of_others_stay_when_our_part_goes(filters: types.ModuleType) -> None:
    found = {"apiVersion": "x/v1", "percentageOfNodesToScore": 30}
    merged = filters.with_extender(found, [ENTRY], **NEW)
    merged |= {"apiVersion": "x/v2", "profiles": [{"schedulerName": "new"}]}
    merged["extenders"].append({"urlPrefix": "http://new"})
    assert filters.without_extender(merged, found, [ENTRY]) == {
        "apiVersion": "x/v2",
        "percentageOfNodesToScore": 30,
        "profiles": [{"schedulerName": "new"}],
        "extenders": [{"urlPrefix": "http://new"}],
    }


def test_a_configuration_that_is_not_ours_any_more_is_left_as_it_is(
    filters: types.ModuleType,
) -> None:
    theirs = {"apiVersion": "x/v2", "percentageOfNodesToScore": 100}
    assert filters.without_extender(theirs, {"apiVersion": "x/v1"}, [ENTRY]) == theirs


@pytest.mark.parametrize(
    "text", ["{", "- a", "1", "at: 2026-13-45", "at: !!bool maybe", "at: !!timestamp x", "[" * 1000]
)
def test_a_file_of_another_kind_is_refused_by_its_name(
    filters: types.ModuleType, text: str
) -> None:
    with pytest.raises(ValueError, match=r"^/etc/s\.yaml: [^\n]*: mend this file$"):
        filters.parsed(text, "/etc/s.yaml")
