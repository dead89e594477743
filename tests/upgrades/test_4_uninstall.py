"""The whole site leaves its hosts as they came."""

import pytest

from tests.upgrades.fleet import HOSTS, Fleet

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]


def test_every_host_is_as_before_an_installation(fleet: Fleet) -> None:
    fleet.playbook("site")
    fleet.playbook("uninstall", "--extra-vars=uninstall_confirmed=true")
    changes = [f"{host}: {line}" for host in HOSTS for line in fleet.changes_since_before(host)]
    assert not changes, "\n".join(changes)  # pytest shortens a list
