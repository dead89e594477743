"""One testbed for the whole run: two GPU hosts of two cards, the product rolled out."""

import collections.abc

import pytest

from tests.cluster import opening
from tests.cluster.site import Site
from tests.testbed import description, fixtures

NAME = "e2e"


testbed = fixtures.session_testbed(NAME)


@pytest.fixture(scope="session")
def site(testbed: description.Testbed) -> Site:
    """Give the testbed with the product; one that was kept is used as it is."""
    site = opening.find_site(testbed.name)
    if not site.traces():
        opening.roll_out(site)
    return site


@pytest.fixture(autouse=True)
def empty_cluster(request: pytest.FixtureRequest) -> collections.abc.Iterator[None]:
    """Leave no pod and no Deployment to the next test."""
    yield
    if "site" not in request.fixturenames:
        return
    site: Site = request.getfixturevalue("site")
    site.kubectl.delete("deployments", "--all")
    site.kubectl.delete("pods", "--all")
