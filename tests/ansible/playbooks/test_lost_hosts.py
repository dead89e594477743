"""Uninstall changes nothing while a host is away, and takes the cluster's objects last."""

import pathlib
from typing import Any

import pytest

from tests.ansible.playbooks import recorder

pytestmark = pytest.mark.long

CHANGES = "/uninstall"
DESPITE = "--extra-vars=uninstall_despite_pods=true"
AWAY = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def site(**variables: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return two control planes and two GPU hosts, each with its variables by its name."""
    return {
        "kube_control_plane": {name: variables.get(name, {}) for name in ("cp1", "cp2")},
        "gpu_nodes": {name: variables.get(name, {}) for name in ("gpu1", "gpu2")},
    }


def uninstall(
    folder: pathlib.Path, groups: dict[str, dict[str, dict[str, Any]]], *arguments: str
) -> recorder.Run:
    return recorder.play(
        folder, groups, "--extra-vars=uninstall_confirmed=true", *arguments,
        playbook="playbooks/uninstall.yml",
    )  # fmt: skip


def changed(run: recorder.Run) -> list[tuple[str, str]]:
    """Return role and host of each removal."""
    return [
        (one.role.removesuffix(CHANGES), one.host)
        for one in run.entries
        if one.role.endswith(CHANGES)
    ]


def text(run: recorder.Run) -> str:
    return " ".join(run.output.split())


@pytest.mark.parametrize(
    ("host", "arguments"),
    [
        ("gpu2", ()),
        pytest.param("cp1", (), marks=pytest.mark.nightly),
        ("cp2", ()),
        pytest.param("gpu2", (DESPITE,), marks=pytest.mark.nightly),
        pytest.param("cp1", (DESPITE,), marks=pytest.mark.nightly),
    ],
)
def test_a_host_that_is_away_keeps_all_as_they_are(
    tmp_path: pathlib.Path, host: str, arguments: tuple[str, ...]
) -> None:
    run = uninstall(tmp_path, site(**{host: AWAY}), *arguments)
    assert run.status != 0
    assert changed(run) == []
    assert f"Nothing was removed, because {host} " in text(run)


@pytest.mark.parametrize(
    ("host", "question"),
    [("gpu1", "gpustack_hook/running_pods"), ("cp1", "cluster_objects/running_pods")],
)
@pytest.mark.parametrize("how", [pytest.param("fails", marks=pytest.mark.nightly), "vanishes"])
def test_a_host_that_is_lost_while_asked_keeps_all_as_they_are(
    tmp_path: pathlib.Path, host: str, question: str, how: str
) -> None:
    run = uninstall(tmp_path, site(**{host: {how: [question]}}))
    assert run.status != 0
    assert changed(run) == []


@pytest.mark.nightly
@pytest.mark.parametrize("how", [pytest.param("fails", marks=pytest.mark.nightly), "vanishes"])
def test_a_gpu_host_lost_at_the_second_question_keeps_gpu_hosts(
    tmp_path: pathlib.Path, how: str
) -> None:
    second = "{{ ['gpustack_hook/running_pods'] if __uninstall_passed is defined else [] }}"
    run = uninstall(tmp_path, site(gpu2={how: second}))
    assert run.status != 0
    assert {host for _, host in changed(run)} == {"cp1", "cp2"}
    assert ("cluster_objects", "cp1") not in changed(run)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("host", "lost"),
    [
        ("gpu1", {"fails": ["nvidia_driver/uninstall"]}),
        ("gpu2", {"vanishes": ["gpustack_agent/uninstall"]}),
        ("gpu1", {"fails": ["preflight/clean"]}),
        pytest.param("cp2", {"fails": ["preflight/clean"]}, marks=pytest.mark.nightly),
    ],
)
def test_objects_stay_while_a_host_is_not_clean(
    tmp_path: pathlib.Path, host: str, lost: dict[str, list[str]]
) -> None:
    run = uninstall(tmp_path, site(**{host: lost}))
    assert run.status != 0
    assert ("cluster_objects", "cp1") not in changed(run)
    assert f"stay, because {host} isn't clean" in text(run)
    # the others are clean all the same
    other = "gpu2" if host == "gpu1" else "gpu1"
    assert ("nvidia_driver", other) in changed(run)


def test_a_driver_that_must_stay_is_named_before_anything_is_removed(
    tmp_path: pathlib.Path,
) -> None:
    run = uninstall(tmp_path, site(gpu2={"fails": ["nvidia_driver/removal"]}))
    assert run.status != 0
    assert changed(run) == []


@pytest.mark.nightly
@pytest.mark.parametrize("host", ["cp1", "cp2"])
def test_a_control_plane_that_is_lost_on_the_way_ends_the_run(
    tmp_path: pathlib.Path, host: str
) -> None:
    run = uninstall(tmp_path, site(**{host: {"vanishes": ["gpustack_extender/uninstall"]}}))
    assert run.status != 0
    assert not {host for _, host in changed(run)} & {"gpu1", "gpu2"}
    assert ("cluster_objects", "cp1") not in changed(run)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("limit", "left_out"),
    [
        ("cp1", "cp2, gpu1, gpu2"),
        ("!gpu2", "gpu2"),
        pytest.param("cp2,gpu*", "cp1", marks=pytest.mark.nightly),
    ],
)
def test_a_run_of_control_planes_names_hosts_that_it_leaves_out(
    tmp_path: pathlib.Path, limit: str, left_out: str
) -> None:
    run = uninstall(tmp_path, site(), f"--limit={limit}")
    assert run.status != 0
    assert changed(run) == []
    assert f"leaves out {left_out}" in text(run)


@pytest.mark.nightly
def test_a_run_of_gpu_hosts_alone_cleans_these_and_says_what_stays(tmp_path: pathlib.Path) -> None:
    run = uninstall(tmp_path, site(gpu2=AWAY), "--limit=gpu1")
    assert run.status == 0, run.output
    assert {host for _, host in changed(run)} == {"gpu1"}
    assert "labels stay, because cp1, cp2, gpu2 may need them" in text(run)


@pytest.mark.parametrize(
    ("playbook", "arguments"),
    [
        pytest.param("playbooks/uninstall.yml", (DESPITE,), marks=pytest.mark.nightly),
        ("site.yml", ("--tags=kube_scheduler",)),
    ],
)
def test_facts_of_an_earlier_run_stand_for_no_answer(
    tmp_path: pathlib.Path, playbook: str, arguments: tuple[str, ...]
) -> None:
    cache = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path)}
    arguments = (*arguments, "--extra-vars=uninstall_confirmed=true")
    for name, groups in (("earlier", site()), ("now", site(cp2=AWAY))):
        (tmp_path / name).mkdir()
        run = recorder.play(tmp_path / name, groups, *arguments, playbook=playbook, settings=cache)
    assert run.status != 0
    assert run.changed == []
