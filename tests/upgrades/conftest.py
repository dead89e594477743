"""One testbed for the whole run: three GPU hosts of two cards, with 0.1.0 rolled out."""

import pytest

from tests.cluster import opening
from tests.testbed import description, fixtures
from tests.upgrades import earlier_release
from tests.upgrades.fleet import Fleet

NAME = "upgrades"

testbed = fixtures.session_testbed(NAME, gpu_hosts=3)


@pytest.fixture(scope="session")
def fleet(testbed: description.Testbed) -> Fleet:
    """Give the testbed with 0.1.0; one that was kept is used as it is."""
    site = opening.find_site(testbed.name)
    fleet = Fleet(name=site.name, state=site.state, kubectl=site.kubectl)
    if not fleet.traces():
        fleet.keep_listings()
        fleet.playbook("site", root=earlier_release.tree())
    return fleet
