"""One bench for the whole run: two GPU hosts of two cards, the product rolled out twice."""

import collections.abc
import os

import pytest

from tests.bench import paths
from tests.cluster import opening
from tests.cluster.site import Site

NAME = "e2e"


@pytest.fixture(scope="session")
def site() -> collections.abc.Iterator[Site]:
    """Give the bench, rolled out; take it down at the end, whatever happened.

    With ``GPUSTACK_E2E_KEEP=1`` a bench that stands is used as it is and left standing: for work on
    one test. The tests of the rollout itself then have nothing to look at and fail.
    """
    keep = os.environ.get("GPUSTACK_E2E_KEEP") == "1"
    if keep and (paths.state_root() / NAME / "hosts.json").exists():
        yield opening.find_site(NAME)
        return
    site = opening.open_site(NAME, gpu_hosts=2)
    try:
        opening.roll_out(site, check=True, twice=True)
        yield site
    finally:
        if not keep:
            opening.close_site(NAME)


@pytest.fixture(autouse=True)
def empty_cluster(request: pytest.FixtureRequest) -> collections.abc.Iterator[None]:
    """Leave no pod and no Deployment to the next test."""
    yield
    if "site" not in request.fixturenames:
        return
    site: Site = request.getfixturevalue("site")
    site.kubectl.delete("deployments", "--all")
    site.kubectl.delete("pods", "--all")
