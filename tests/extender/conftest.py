from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.cache.portions import PORTION
from tests.extender.apiserver import rights
from tests.extender.cache.metered import MeteredLock, counting
from tests.extender.mini_cluster import MiniCluster, node, serving
from tests.fakes.kube_api import FakeKubeApi

# For each node of a portion: the node itself, its uses and its base, and the way to it.
_MOST_LOOKS = 3 * PORTION


@pytest.fixture
def api() -> Iterator[FakeKubeApi]:
    """An API server; a request that the shipped roles don't allow fails its test."""
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
    """A ready extender of gpu1 alone that gives every decision up after 0.3 s."""
    api.create("nodes", node("gpu1"))
    with serving(api, tmp_path, decision_seconds=0.3) as running:
        yield running


@pytest.fixture
def lock() -> Iterator[MeteredLock]:
    metered = MeteredLock()
    with counting(metered):
        yield metered
    assert metered.searches == []
    assert metered.busiest.looks <= _MOST_LOOKS, metered.busiest
