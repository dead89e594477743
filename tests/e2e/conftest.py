"""One bench for the whole run: two GPU hosts of two cards, the product rolled out twice."""

import collections.abc

import pytest

from tests.cluster import opening
from tests.cluster.site import Site

NAME = "e2e"


@pytest.fixture(scope="session")
def site() -> collections.abc.Iterator[Site]:
    """Give the bench, rolled out; take it down at the end, whatever happened."""
    site = opening.open_site(NAME, gpu_hosts=2)
    try:
        opening.roll_out(site, check=True, twice=True)
        yield site
    finally:
        opening.close_site(NAME)


@pytest.fixture(autouse=True)
def empty_cluster(site: Site) -> collections.abc.Iterator[None]:
    """Leave no pod and no Deployment to the next test."""
    yield
    site.kubectl.delete("deployments", "--all")
    site.kubectl.delete("pods", "--all")
