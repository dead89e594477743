from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.cache.portions import PORTION
from tests.extender import rights
from tests.extender.metered import MeteredLock, counting
from tests.extender.mini_cluster import MiniCluster, node, serving
from tests.fakes.kube_api import FakeKubeApi

# A portion of nodes, each looked at, its uses and its base, and what leads to it.
MOST_LOOKS = 3 * PORTION


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    """An API server; what the shipped roles don't allow fails the test that asked for it."""
    with FakeKubeApi() as server:
        yield server
    assert rights.forbidden(server.requests) == []


@pytest.fixture
def mini(api: FakeKubeApi, tmp_path: Path) -> Iterator[MiniCluster]:
    """A ready extender; gpu1 and gpu2 have two cards of 80 GiB each, cpu1 has none."""
    for name, cards in (("gpu1", 2), ("gpu2", 2), ("cpu1", 0)):
        api.create("nodes", node(name, cards))
    with serving(api, tmp_path) as running:
        yield running


@pytest.fixture
def hurried(api: FakeKubeApi, tmp_path: Path) -> Iterator[MiniCluster]:
    """A ready extender of gpu1 alone that gives every decision up after a moment."""
    api.create("nodes", node("gpu1"))
    with serving(api, tmp_path, decision_seconds=0.3) as running:
        yield running


@pytest.fixture
def lock() -> Iterator[MeteredLock]:
    """A lock in place of the cache's, under which nothing searches and little is looked at."""
    metered = MeteredLock()
    with counting(metered):
        yield metered
    assert metered.searches == []
    assert metered.busiest.looks <= MOST_LOOKS, metered.busiest
