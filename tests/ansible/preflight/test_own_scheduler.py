"""A scheduler of our own is on all hosts with schedulers, or on none, and fits the API server."""

import pathlib
from typing import Any

import pytest

from tests.ansible import api_server
from tests.ansible.preflight.preflight_host import play
from tests.ansible.preflight.test_preflight import check
from tests.ansible.rendering import words

pytestmark = pytest.mark.long

OWN: dict[str, Any] = {"kube_scheduler_manager": "own"}


def plane(**variables: Any) -> tuple[str, dict[str, Any]]:
    return "control_plane", variables


def test_a_site_of_two_kinds_of_schedulers_is_refused(tmp_path: pathlib.Path) -> None:
    done = check(tmp_path, {"one": plane(**OWN), "two": plane()})
    assert done.returncode != 0
    assert "kube_scheduler_manager is own on one, and not on the other hosts" in words(done)


def test_a_site_with_schedulers_of_our_own_passes(tmp_path: pathlib.Path) -> None:
    given = {**OWN, "kube_scheduler_own_binary": "/srv/kube-scheduler"}
    done = check(tmp_path, {"one": plane(**given), "two": plane(**given)})
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("minor", "fits"),
    [
        (35, False),
        pytest.param(34, True, marks=pytest.mark.nightly),
        (33, True),
        pytest.param(32, False, marks=pytest.mark.nightly),
    ],
)
def test_a_scheduler_of_our_own_fits_the_api_server(
    tmp_path: pathlib.Path, minor: int, fits: bool
) -> None:
    with api_server.serving(tmp_path, {"nodes": [api_server.node("gpu1", {})]}) as kubeconfig:
        said = {"cluster_objects_kubeconfig": str(kubeconfig), "kube_scheduler_own_minor": minor}
        status, output = play(tmp_path, "cluster", said)
    assert (status == 0) == fits, output
    told = f"kube_scheduler_own_binary of gpu1 is a kube-scheduler 1.{minor}, and the API server"
    assert (told in output) == (not fits)
