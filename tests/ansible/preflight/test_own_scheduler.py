"""A scheduler of our own is on all hosts with schedulers, or on none."""

import pathlib
from typing import Any

import pytest

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
